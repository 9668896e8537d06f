/* Named prefixes of a model file: results of sessions after them, and damaged ones. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "test.h"

#include "fed.h"
#include "more_toys.h"
#include "prefixes.h"

static const struct toy toys[] = {
    {.arch = "llama",
     .n_vocab = 47,
     .n_ctx = 400,
     .n_embd = 28,
     .n_layer = 2,
     .n_head = 4,
     .n_head_kv = 2,
     .head_dim = 8,
     .n_ff = 50,
     .n_rot = 8,
     .type = TFT_F32},
    {.arch = "gpt2",
     .n_vocab = 32,
     .n_ctx = 400,
     .n_embd = 20,
     .n_layer = 2,
     .n_head = 2,
     .n_head_kv = 2,
     .head_dim = 12,
     .n_ff = 40,
     .type = TFT_F32,
     .tied = true},
};
enum { N_TOYS = sizeof toys / sizeof *toys, MAIN = 3, LONG = 37, SHORT = 5, REST = 60 };
static const int32_t own[MAIN] = {1, 7, 3};
static int32_t text[LONG + SHORT + REST], *const rest = text + LONG + SHORT;

/* The toy with its own prefix, if `with_own`, and two named ones. */
static const char *prefixed(const struct toy *t, bool with_own)
{
    toy_tokens(5, t->n_vocab, text, LONG + SHORT + REST);
    const struct prefix_text all[] = {{.tokens = own, .n = MAIN},
                                      {.name = "long", .tokens = text, .n = LONG, .system = "be"},
                                      {.name = "a-2_", .tokens = text + LONG, .n = SHORT}};
    const char *to = in_folder("prefixed.gguf");
    write_prefixes(written(t), to, all + !with_own, 2 + with_own, -1);
    return to;
}

/* The logits after REST tokens, fed in chunks, and after the prefix alone. */
static uint64_t hash_of(const struct tft_model *m, struct tft_session_opts o, uint32_t chunk)
{
    struct tft_session *s = session(m, o);
    assert_int_equal(tft_prefill(s, NULL, 0), TFT_OK);
    uint64_t h = hash_logits(0xcbf29ce484222325, s);
    feed(s, rest, REST, chunk);
    assert_int_equal(tft_pos(s), REST);
    h = hash_logits(h, s);
    tft_session_close(s);
    return h;
}

/* The same of a session without any prefix, which is fed its tokens. The file has the prefix in
   f16, so the bits are the same with the cache f16. */
static uint64_t hash_of_fed(const struct tft_model *m, const int32_t *named, uint32_t n,
                            bool with_own)
{
    struct tft_session *s = session(m, (struct tft_session_opts){.kv = "f16", .n_threads = 1});
    if (with_own)
        assert_int_equal(tft_prefill(s, own, MAIN), TFT_OK);
    if (n)
        assert_int_equal(tft_prefill(s, named, n), TFT_OK);
    uint64_t h = hash_logits(0xcbf29ce484222325, s);
    assert_int_equal(tft_prefill(s, rest, REST), TFT_OK);
    h = hash_logits(h, s);
    tft_session_close(s);
    return h;
}

/* lfm2, qwen35 and falcon-h1 have states. */
static void as_if_its_tokens_were_fed(void **state)
{
    (void)state;
    const struct toy *const all[] = {&toys[0], &toys[1], &state_toys[0], &state_toys[2],
                                     &state_toys[6]};
    for (size_t i = 0; i < 2 * sizeof all / sizeof *all; i++) {
        bool with_own = i % 2;
        const char *path = prefixed(all[i / 2], with_own);
        struct tft_model *bare = opened(in_folder("m.gguf"));
        uint64_t want[] = {hash_of_fed(bare, text, LONG, with_own),
                           hash_of_fed(bare, text + LONG, SHORT, with_own)};
        for (int isa = 0; isa < tft_kernels_isas(); isa++) {
            assert_int_equal(tft_cpu_limit(tft_kernels_name(isa)), TFT_OK);
            struct tft_model *m = opened(path);
            struct tft_session_opts o = {.kv = "f16", .n_threads = 1, .prefix = "long"};
            assert_int_equal(hash_of(m, o, REST), want[0]);
            assert_int_equal(hash_of(m, o, 1), want[0]);
            o.n_threads = 3;
            o.n_batch = 16;
            assert_int_equal(hash_of(m, o, 23), want[0]);
            o.prefix = "a-2_";
            assert_int_equal(hash_of(m, o, 7), want[1]);
            o.prefix = NULL;
            if (with_own)
                assert_int_equal(hash_of(m, o, 7), hash_of_fed(bare, NULL, 0, true));
            tft_model_close(m);
        }
        tft_cpu_limit(NULL);
        tft_model_close(bare);
    }
}

/* A named prefix is the same as a prefix of all its tokens that is the model's own. */
static void compare_with_one(bool with_own)
{
    static const char *const caches[] = {"f16", "f32", "i8", "kivi:window=16,group=16",
                                         "logquant:window=11,group=16",
                                         "kivi:kr=fill:16,vr=window:11,group=16,sinks=2"};
    int32_t joined[MAIN + LONG];
    uint32_t n_own = with_own ? MAIN : 0, n = n_own + LONG;
    const char *path = prefixed(&toys[0], with_own), *one = in_folder("one.gguf");
    memcpy(joined, own, sizeof own);
    memcpy(joined + n_own, text, LONG * sizeof *text);
    write_prefixes(in_folder("m.gguf"), one, &(struct prefix_text){.tokens = joined, .n = n}, 1,
                   -1);
    struct tft_model *m[2] = {opened(one), opened(path)};
    for (size_t i = 0; i < 2 * sizeof caches / sizeof *caches; i++) {
        struct tft_session_opts o = {
            .size = sizeof o, .n_threads = 1, .kv = caches[i / 2], .slide = i % 2};
        struct tft_session *s[2];
        uint64_t h[2] = {0};
        o.capacity = o.slide ? 96 : 0;
        for (int j = 0; j < 2; j++) {
            o.prefix = j ? "long" : NULL;
            s[j] = session(m[j], o);
            assert_int_equal(tft_capacity(s[j]), o.slide ? 96 : 400 - n);
            for (int turn = 0; turn < 5; turn++) /* slides twice */
                assert_int_equal(tft_prefill(s[j], rest, REST), TFT_OK);
            h[j] = hash_logits(h[j], s[j]);
            assert_int_equal(tft_rewind(s[j], 20), TFT_OK);
            assert_int_equal(tft_prefill(s[j], rest, 9), TFT_OK);
            h[j] = hash_logits(h[j], s[j]);
            assert_int_equal(tft_rewind(s[j], 0), TFT_OK);
            assert_int_equal(tft_prefill(s[j], NULL, 0), TFT_OK);
            h[j] = hash_logits(h[j], s[j]);
            assert_int_equal(tft_sync(s[j], rest + 5, 30), TFT_OK);
            h[j] = hash_logits(h[j], s[j]);
        }
        assert_int_equal(h[0], h[1]);
        assert_int_equal(s[0]->size, s[1]->size);
        assert_int_equal(tft_session_bytes(m[1], &o, NULL), s[1]->size);
        for (int j = 0; j < 2; j++)
            tft_session_close(s[j]);
    }
    tft_model_close(m[0]);
    tft_model_close(m[1]);
}

static void as_one_prefix(void **state)
{
    (void)state;
    compare_with_one(true);
    compare_with_one(false);
}

static void the_list(void **state)
{
    (void)state;
    struct tft_model *m = opened(prefixed(&toys[0], true));
    struct tft_prefix_info info = {.size = sizeof info};
    assert_int_equal(tft_prefix_describe(m, 0, &info), TFT_OK);
    assert_string_equal(info.name, "long");
    assert_string_equal(info.system, "be");
    assert_int_equal(info.positions, MAIN + LONG);
    assert_int_equal(info.n_tokens, LONG);
    assert_memory_equal(info.tokens, text, LONG * sizeof *text);
    info = (struct tft_prefix_info){.size = offsetof(struct tft_prefix_info, tokens)};
    assert_int_equal(tft_prefix_describe(m, 1, &info), TFT_OK);
    assert_string_equal(info.name, "a-2_");
    assert_null(info.system);
    assert_null(info.tokens);
    assert_int_equal(tft_prefix_describe(m, 2, &info), TFT_ERR_ARG);

    struct tft_session_opts o = {.size = sizeof o, .prefix = "short"};
    struct tft_session *s;
    struct tft_error err;
    assert_int_equal(tft_session_open(&s, m, &o, &err), TFT_ERR_ARG);
    assert_non_null(strstr(err.msg, "no prefix \"short\": it has long, a-2_"));
    assert_int_equal(tft_session_bytes(m, &o, NULL), 0);
    o.prefix = "long";
    o.capacity = 400 - MAIN - LONG + 1;
    assert_int_equal(tft_session_open(&s, m, &o, &err), TFT_ERR_ARG);
    tft_model_close(m);

    struct tft_model *bare = opened(in_folder("m.gguf"));
    assert_int_equal(tft_session_open(&s, bare, &o, &err), TFT_ERR_ARG);
    assert_non_null(strstr(err.msg, "no prefix \"long\": tuffet quantize --intact-system"));
    tft_model_close(bare);
}

/* ---- the rest of a prompt */

static const struct toy speaking = {.arch = "llama",
                                    .n_vocab = TOY_VOCAB,
                                    .n_ctx = 64,
                                    .n_embd = 16,
                                    .n_layer = 1,
                                    .n_head = 1,
                                    .n_head_kv = 1,
                                    .head_dim = 16,
                                    .n_ff = 16,
                                    .n_rot = 16,
                                    .vocab = "llama"};

static void holds(const struct tft_model *m, const char *name, const int32_t *ids, size_t n,
                  size_t want)
{
    assert_int_equal(tft_prefix_held(m, name, ids, n), want);
    const char *best = tft_prefix_best(m, ids, n);
    assert_true(tft_prefix_held(m, best, ids, n) >= want);
}

/* 1 is BOS. */
static void what_a_prefix_holds(void **state)
{
    (void)state;
    static const int32_t two[] = {30, 31}, four[] = {30, 31, 32, 33}, bos_five[] = {1, 5},
                         cushion[] = {1, 9, 13, 20, 21};
    const struct prefix_text all[] = {{.tokens = cushion, .n = 5},
                                      {.name = "two", .tokens = two, .n = 2},
                                      {.name = "four", .tokens = four, .n = 4},
                                      {.name = "same", .tokens = two, .n = 2, .no_x = true}};
    const char *path = in_folder("held.gguf");
    written(&speaking);

    /* of the own prefix, the last two tokens are text */
    write_prefixes(in_folder("m.gguf"), path, all, 4, 2);
    struct tft_model *m = opened(path);
    const int32_t ids[] = {1, 20, 21, 30, 31, 32, 33, 40};
    holds(m, NULL, ids, 8, 3);
    holds(m, "two", ids, 8, 5);
    holds(m, "four", ids, 8, 7);
    assert_string_equal(tft_prefix_best(m, ids, 8), "four");
    holds(m, NULL, ids + 1, 7, 2); /* tft_tokenize adds no BOS */
    holds(m, "four", ids + 1, 7, 6);
    holds(m, "four", ids, 7, 7); /* all of it */
    holds(m, "four", ids, 6, 1); /* not all of its text: BOS alone */
    assert_string_equal(tft_prefix_best(m, ids, 6), "two");
    assert_string_equal(tft_prefix_best(m, ids, 5), "two");
    holds(m, "same", ids, 6, 5);
    holds(m, "same", ids, 5, 0); /* it could not go on: its logits are unknown */
    holds(m, NULL, ids, 3, 3);
    holds(m, NULL, ids, 2, 1);
    holds(m, NULL, ids + 3, 5, 0); /* without the prefix's text */
    holds(m, "four", ids + 3, 5, 4);
    holds(m, "four", ids + 2, 6, 0); /* a part of it is text like other text */
    assert_string_equal(tft_prefix_best(m, ids + 3, 5), "four");
    holds(m, "five", ids, 8, 0);
    holds(m, NULL, NULL, 0, 0);
    tft_model_close(m);

    /* without text of its own, and with a named one that has BOS */
    write_prefixes(in_folder("m.gguf"), path, all, 4, -1);
    m = opened(path);
    holds(m, NULL, ids, 8, 1);
    holds(m, NULL, ids + 1, 7, 0);
    holds(m, "four", ids + 3, 5, 4);
    holds(m, "four", (const int32_t[]){1, 30, 31, 32, 33}, 5, 5);
    tft_model_close(m);
    write_prefixes(in_folder("m.gguf"), path,
                   &(struct prefix_text){.name = "b", .tokens = bos_five, .n = 2}, 1, -1);
    m = opened(path);
    holds(m, "b", (const int32_t[]){1, 5, 6}, 3, 2);
    holds(m, "b", (const int32_t[]){5, 6}, 2, 0);
    holds(m, NULL, (const int32_t[]){1, 5, 6}, 3, 0);
    tft_model_close(m);
}

static void a_list_too_long_for_a_message(void **state)
{
    (void)state;
    static char names[TFT_PREFIX_NAMES][TFT_PREFIX_NAME + 1];
    struct prefix_text all[TFT_PREFIX_NAMES];
    struct tft_session_opts o = {.size = sizeof o, .prefix = "short"};
    struct tft_session *s;
    struct tft_error err;
    for (int i = 0; i < TFT_PREFIX_NAMES; i++) {
        snprintf(names[i], sizeof names[i], "an-assistant-of-the-number-%05d", i);
        all[i] = (struct prefix_text){.name = names[i], .tokens = own, .n = 1};
    }
    write_prefixes(written(&toys[0]), in_folder("many.gguf"), all, TFT_PREFIX_NAMES, -1);
    struct tft_model *m = opened(in_folder("many.gguf"));
    assert_int_equal(tft_session_open(&s, m, &o, &err), TFT_ERR_ARG);
    assert_non_null(strstr(err.msg, "it has an-assistant-of-the-number-00000, "));
    assert_string_equal(err.msg + strlen(err.msg) - 3, "...");
    tft_model_close(m);
}

/* ---- damaged files */

enum damage { NAMES, NO_NAMES, MANY_NAMES, NUMBERS, TOKENS_OF, NO_TOKENS, SYSTEM, TEXT_OF, SHAPE,
              NO_ROWS };

/* Copies prefixed.gguf with one thing wrong. */
static const char *damaged(enum damage what, const char *name, uint32_t number)
{
    struct tft_source s;
    struct tft_gguf_writer *w;
    const char *to = in_folder("damaged.gguf");
    struct tft_str names[TFT_PREFIX_NAMES + 1];
    int32_t many[400] = {(int32_t)number};
    assert_int_equal(tft_source_open(&s, in_folder("prefixed.gguf"), NULL, NULL, NULL), TFT_OK);
    assert_int_equal(tft_gguf_create(&w, to, NULL), TFT_OK);
    for (size_t i = 0; i < s.n_value; i++) {
        struct tft_str key = s.value[i].key;
        bool list = tft_str_is(key, "tuffet.prefix.names"),
             tokens = tft_str_is(key, "tuffet.prefix.long.tokens");
        for (size_t j = 0; j < TFT_PREFIX_NAMES + 1; j++)
            names[j] = (struct tft_str){j ? "a-2_" : name, strlen(j ? "a-2_" : name)};
        if (list && what <= MANY_NAMES)
            tft_gguf_put_strs(w, TFT_KEY_PREFIX_NAMES, names,
                              what == NAMES ? 2 : what == NO_NAMES ? 0 : TFT_PREFIX_NAMES + 1);
        else if (list && what == NUMBERS)
            tft_gguf_put_array(w, TFT_KEY_PREFIX_NAMES, TFT_VALUE_I32, many, 2);
        else if (tokens && what == TOKENS_OF)
            tft_gguf_put_array(w, "tuffet.prefix.long.tokens", TFT_VALUE_I32, many,
                               number ? LONG : 400 - MAIN);
        else if (tft_str_is(key, "tuffet.prefix.long.system") && what == SYSTEM)
            tft_gguf_put_u32(w, "tuffet.prefix.long.system", 1);
        else if (tft_str_is(key, "tuffet.prefix.tokens") && what == TEXT_OF) {
            const int32_t gap[MAIN] = {1, -1, 3};
            tft_gguf_put_array(w, TFT_KEY_PREFIX_TOKENS, TFT_VALUE_I32, gap, MAIN);
            tft_gguf_put_u32(w, TFT_KEY_PREFIX_TEXT, number);
        } else if (!(tokens && what == NO_TOKENS))
            tft_gguf_put_value(w, &s.value[i]);
    }
    for (int data = 0; data < 2; data++)
        for (size_t i = 0; i < s.n_tensor; i++) {
            const struct tft_tensor *t = &s.tensor[i];
            bool here = tft_str_is(t->name, name);
            uint64_t ne[4] = {t->ne[0], t->ne[1], t->ne[2], t->ne[3]};
            ne[t->n_dims > 1 ? 2 : 0] -= here && what == SHAPE;
            uint64_t bytes = t->bytes / (t->ne[0] * t->ne[1] * t->ne[2]) * ne[0] * ne[1] * ne[2];
            if (here && what == NO_ROWS)
                continue;
            if (data)
                tft_gguf_put_data(w, t->data, (size_t)bytes);
            else
                tft_gguf_put_tensor(w, t->name, t->type, t->n_dims, ne);
        }
    assert_int_equal(tft_gguf_close(w, true, NULL), TFT_OK);
    tft_source_close(&s);
    return to;
}

static void damaged_files_are_refused(void **state)
{
    (void)state;
    static const struct {
        enum damage what;
        const char *name;
        uint32_t number;
        const char *why;
    } cases[] = {
        {NAMES, "Long", 0, "tuffet.prefix.names: name 0 is given twice, or not 1 to 32"},
        {NAMES, "", 0, "tuffet.prefix.names: name 0"},
        {NAMES, "main", 0, "tuffet.prefix.names: name 0"},
        {NAMES, "a-2_", 0, "tuffet.prefix.names: name 1 is given twice"},
        {NAMES, "a.b", 0, "tuffet.prefix.names: name 0"},
        {NAMES, "a\xff", 0, "tuffet.prefix.names: name 0"},
        {NAMES, "an-assistant-of-the-number-000001", 0, "tuffet.prefix.names: name 0"},
        {NAMES, "other", 0, "tuffet.prefix.other.tokens is missing"},
        {NO_NAMES, "long", 0, "tuffet.prefix.names is not an array of 1 to 64 strings"},
        {MANY_NAMES, "long", 0, "tuffet.prefix.names is not an array of 1 to 64 strings"},
        {NUMBERS, "long", 0, "tuffet.prefix.names is not an array of 1 to 64 strings"},
        {NO_TOKENS, "", 0, "tuffet.prefix.long.tokens is missing, or not an array of 1 to 396 to"},
        {TOKENS_OF, "", 0, "tuffet.prefix.long.tokens is missing, or not an array of 1 to 396 to"},
        {TOKENS_OF, "", 47, "tuffet.prefix.long.tokens has an element that is no token below 47"},
        {TOKENS_OF, "", UINT32_MAX, "tuffet.prefix.long.tokens has an element that is no token"},
        {TEXT_OF, "", 4, "tuffet.prefix.text is not a number of 0 to 3 tokens"},
        {TEXT_OF, "", 2, "tuffet.prefix.tokens has an element that is no token below 47"},
        {SYSTEM, "", 0, "tuffet.prefix.long.system is not a string"},
        {NO_ROWS, "tuffet.prefix.long.k", 0, "the tensor tuffet.prefix.long.k is missing"},
        {NO_ROWS, "tuffet.prefix.long.v", 0, "the tensor tuffet.prefix.long.v is missing"},
        {SHAPE, "tuffet.prefix.long.k", 0, "tuffet.prefix.long.k is 2 x 36 x 2 x 8 and should be"},
        {SHAPE, "tuffet.prefix.a-2_.v", 0, "tuffet.prefix.a-2_.v is 2 x 4 x 2 x 8 and should be"},
        {SHAPE, "tuffet.prefix.long.x", 0, "tuffet.prefix.long.x is 1 x 27 and should be 1 x 28"},
    };
    prefixed(&toys[0], true);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tft_model *m;
        struct tft_error err = {.msg = "opened"};
        tft_model_open(&m, damaged(cases[i].what, cases[i].name, cases[i].number), NULL, &err);
        tft_model_close(m);
        if (!strstr(err.msg, cases[i].why) || strchr(err.msg, '\n'))
            fail_msg("case %zu: \"%s\" is not \"%s\"", i, err.msg, cases[i].why);
    }
    tft_model_close(opened(damaged(TEXT_OF, "", 1))); /* the position without a token is no text */
    struct tft_model *m = opened(damaged(NO_ROWS, "tuffet.prefix.long.x", 0));
    struct tft_session *s = session(m, (struct tft_session_opts){.prefix = "long"});
    assert_int_equal(tft_prefill(s, NULL, 0), TFT_ERR_ARG);
    tft_session_close(s);
    tft_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_if_its_tokens_were_fed),
        cmocka_unit_test(as_one_prefix),
        cmocka_unit_test(the_list),
        cmocka_unit_test(what_a_prefix_holds),
        cmocka_unit_test(a_list_too_long_for_a_message),
        cmocka_unit_test(damaged_files_are_refused),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "test.h"

#include "blob.h"
#include "folder.h"
#include "file/llama2c.h"
#include "memory.h"
#include "paths.h"

/* ---- a small checkpoint: number i of the file is i, so that a number tells its position */

enum {
    DIM = 16,
    HIDDEN = 12,
    LAYERS = 2,
    HEADS = 2,
    KV_HEADS = 1,
    VOCAB = 261,
    SEQ = 3,
    KV = DIM / HEADS * KV_HEADS
};
enum { PER_LAYER = 2 * DIM + 2 * DIM * DIM + 2 * KV * DIM + 3 * HIDDEN * DIM };
enum {
    TIED = VOCAB * DIM + LAYERS * PER_LAYER + DIM + SEQ * DIM / HEADS,
    UNTIED = TIED + VOCAB * DIM
};

struct checkpoint {
    size_t size;
    unsigned char p[28 + 4 * UNTIED];
};

static void set(struct checkpoint *c, int field, int32_t v)
{
    tft_store_u32(c->p + 4 * field, (uint32_t)v);
}

static struct checkpoint checkpoint(bool tied)
{
    struct checkpoint c = {.size = 28 + 4 * (size_t)(tied ? TIED : UNTIED)};
    const int32_t header[] = {DIM, HIDDEN, LAYERS, HEADS, KV_HEADS, tied ? VOCAB : -VOCAB, SEQ};
    for (int i = 0; i < 7; i++)
        set(&c, i, header[i]);
    for (uint32_t i = 0; i < UNTIED; i++) {
        float f = (float)i;
        memcpy(c.p + 28 + 4 * i, &f, 4);
    }
    return c;
}

/* The text of token i: *out in the file, the result in the source. */
static const char *token(int i, char out[16])
{
    static char byte[16];
    static const char *const first[] = {"<unk>", "<s>", "</s>"}, *const last[] = {
                                                                     "\u2581a\u2581\u2581b",
                                                                     "\n<s>\n"};
    snprintf(byte, sizeof byte, "<0x%02X>", i - 3);
    strcpy(out, i == 0     ? "<unk>"
                : i == 1   ? "\n<s>\n"
                : i == 2   ? "\n</s>\n"
                : i < 259  ? byte
                : i == 259 ? " a  b"
                           : last[1]);
    return i < 3 ? first[i] : i < 259 ? byte : last[i - 259];
}

static struct blob tokenizer(void)
{
    struct blob b = {0};
    blob_u32(&b, 6);
    for (int i = 0; i < VOCAB; i++) {
        char text[16];
        token(i, text);
        blob_f32(&b, (float)-i);
        blob_u32(&b, (uint32_t)strlen(text));
        blob_bytes(&b, text, strlen(text));
    }
    return b;
}

/* Opens a checkpoint and a tokenizer from memory; close_pair() closes them. */
static enum tft_status open_pair(struct tft_source *s, const struct checkpoint *c,
                                 const struct blob *t, const struct tft_allocator *a,
                                 struct tft_error *err)
{
    *s = (struct tft_source){
        .name = "m.bin", .data = exact_copy(c->p, c->size), .size = c->size, .allocator = a};
    if (t) {
        s->tokenizer = exact_copy(t->p, t->n);
        s->tokenizer_size = t->n;
    }
    return tft_llama2c_read(s, t ? "tok.bin" : NULL, err);
}

static void close_pair(struct tft_source *s)
{
    tft_port_free((void *)(uintptr_t)s->data);
    tft_port_free((void *)(uintptr_t)s->tokenizer);
    tft_source_close(s);
}

static void opens_pair(struct tft_source *s, const struct checkpoint *c, const struct blob *t)
{
    struct tft_error err;
    if (open_pair(s, c, t, NULL, &err))
        fail_msg("%s", err.msg);
}

/* ---- contents */

static void check_tensor(const struct tft_source *s, const char *name, unsigned first, unsigned row,
                         unsigned rows)
{
    const struct tft_tensor *t = tft_source_tensor(s, name);
    if (!t)
        fail_msg("no %s", name);
    float f;
    memcpy(&f, t->data, 4);
    if (f != (float)first)
        fail_msg("%s starts at number %g, not %u", name, (double)f, first);
    assert_int_equal(t->offset, 28 + 4 * first);
    assert_int_equal(t->type, TFT_F32);
    assert_int_equal(t->n_dims, rows ? 2 : 1);
    assert_true(t->ne[0] == row && t->ne[1] == (rows ? rows : 1) && t->ne[2] == 1 && t->ne[3] == 1);
    assert_int_equal(t->bytes, 4 * row * (rows ? rows : 1));
    assert_int_equal((uintptr_t)t->data % 4, 0);
}

/* Checks a tensor per layer, from number `at` on; returns the number after the last one. */
static unsigned check_layers(const struct tft_source *s, const char *name, unsigned at,
                             unsigned row, unsigned rows)
{
    for (int i = 0; i < LAYERS; i++) {
        char full[64];
        snprintf(full, sizeof full, "blk.%d.%s.weight", i, name);
        check_tensor(s, full, at, row, rows);
        at += row * (rows ? rows : 1);
    }
    return at;
}

static void tensors_are_where_llama2c_has_them(void **state)
{
    (void)state;
    for (int tied = 0; tied < 2; tied++) {
        struct checkpoint c = checkpoint(tied);
        struct tft_source s;
        opens_pair(&s, &c, NULL);
        assert_int_equal(s.n_tensor, 2 + 9 * LAYERS + !tied);
        check_tensor(&s, "token_embd.weight", 0, DIM, VOCAB);
        unsigned at = VOCAB * DIM;
        at = check_layers(&s, "attn_norm", at, DIM, 0);
        at = check_layers(&s, "attn_q", at, DIM, DIM);
        at = check_layers(&s, "attn_k", at, DIM, KV);
        at = check_layers(&s, "attn_v", at, DIM, KV);
        at = check_layers(&s, "attn_output", at, DIM, DIM);
        at = check_layers(&s, "ffn_norm", at, DIM, 0);
        at = check_layers(&s, "ffn_gate", at, DIM, HIDDEN);
        at = check_layers(&s, "ffn_down", at, HIDDEN, DIM);
        at = check_layers(&s, "ffn_up", at, DIM, HIDDEN);
        check_tensor(&s, "output_norm.weight", at, DIM, 0);
        if (tied)
            assert_null(tft_source_tensor(&s, "output.weight"));
        else
            check_tensor(&s, "output.weight", TIED, DIM, VOCAB);
        close_pair(&s);
    }
}

static void check_u32(const struct tft_source *s, const char *key, uint64_t want)
{
    uint64_t got;
    const struct tft_value *v = tft_source_value(s, key);
    if (!v || v->type != TFT_VALUE_U32 || !tft_value_uint(v, 0, &got) || got != want)
        fail_msg("%s is not %llu", key, (unsigned long long)want);
}

static void check_real(const struct tft_source *s, const char *key, double want)
{
    double got;
    const struct tft_value *v = tft_source_value(s, key);
    assert_true(v && tft_value_real(v, 0, &got) && got == want);
}

static void check_str(const struct tft_source *s, const char *key, const char *want)
{
    struct tft_str got;
    const struct tft_value *v = tft_source_value(s, key);
    assert_true(v && tft_value_str(v, &got) && tft_str_is(got, want));
}

static void values_of_a_llama(void **state)
{
    (void)state;
    struct checkpoint c = checkpoint(false);
    struct tft_source s;
    opens_pair(&s, &c, NULL);
    assert_int_equal(s.n_value, 11);
    assert_int_equal(s.version, 0);
    assert_int_equal(s.alignment, 4);
    check_str(&s, "general.architecture", "llama");
    check_u32(&s, "llama.embedding_length", DIM);
    check_u32(&s, "llama.feed_forward_length", HIDDEN);
    check_u32(&s, "llama.block_count", LAYERS);
    check_u32(&s, "llama.attention.head_count", HEADS);
    check_u32(&s, "llama.attention.head_count_kv", KV_HEADS);
    check_u32(&s, "llama.vocab_size", VOCAB);
    check_u32(&s, "llama.context_length", SEQ);
    check_u32(&s, "llama.rope.dimension_count", DIM / HEADS);
    check_real(&s, "llama.rope.freq_base", 10000);
    check_real(&s, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    assert_int_equal(tft_source_value(&s, "llama.context_length")->offset, 24);
    assert_null(tft_source_value(&s, "tokenizer.ggml.model"));
    close_pair(&s);
}

static void values_of_a_tokenizer(void **state)
{
    (void)state;
    struct checkpoint c = checkpoint(true);
    struct blob t = tokenizer();
    struct tft_source s;
    opens_pair(&s, &c, &t);
    assert_int_equal(s.n_value, 19);
    check_str(&s, "tokenizer.ggml.model", "llama");
    check_u32(&s, "tokenizer.ggml.bos_token_id", 1);
    check_u32(&s, "tokenizer.ggml.eos_token_id", 2);
    check_u32(&s, "tokenizer.ggml.unknown_token_id", 0);
    const struct tft_value *add_bos = tft_source_value(&s, "tokenizer.ggml.add_bos_token");
    assert_true(add_bos->type == TFT_VALUE_BOOL && add_bos->data[0] == 1);

    const struct tft_value *tokens = tft_source_value(&s, "tokenizer.ggml.tokens");
    const struct tft_value *scores = tft_source_value(&s, "tokenizer.ggml.scores");
    const struct tft_value *types = tft_source_value(&s, "tokenizer.ggml.token_type");
    assert_true(tokens->is_array && tokens->type == TFT_VALUE_STRING && tokens->n == VOCAB);
    assert_true(scores->is_array && scores->type == TFT_VALUE_F32 && scores->n == VOCAB);
    assert_true(types->is_array && types->type == TFT_VALUE_I32 && types->n == VOCAB);
    const unsigned char *at = tokens->data;
    for (int i = 0; i < VOCAB; i++) {
        double score;
        int64_t got;
        char text[16];
        assert_true(tft_str_is(tft_value_next_str(&at), token(i, text)));
        assert_true(tft_value_real(scores, (uint64_t)i, &score) && score == -i);
        assert_true(tft_value_int(types, (uint64_t)i, &got) && got == (i == 0    ? 2
                                                                       : i < 3   ? 3
                                                                       : i < 259 ? 6
                                                                                 : 1));
    }
    close_pair(&s);
}

/* ---- refused files */

/* The size that a header asks for; 0 if it is too large for a test. */
static size_t size_for(const int32_t h[7])
{
    if (!h[3])
        return 0;
    double dim = h[0], head = h[0] / h[3], vocab = abs(h[5]);
    double n = vocab * dim * (h[5] < 0 ? 2 : 1) + dim + h[6] * (double)((int)head / 2) * 2;
    n += h[2] * (2 * dim + 2 * dim * dim + 2 * head * h[4] * dim + 3.0 * h[1] * dim);
    return n >= 0 && n < 1e6 ? 28 + 4 * (size_t)n : 0;
}

/* Refused at the size of the valid file and at the size that the header asks for. */
static void invalid_headers(void **state)
{
    (void)state;
    static const int32_t sound[7] = {DIM, HIDDEN, LAYERS, HEADS, KV_HEADS, VOCAB, SEQ};
    static const struct {
        int field;
        int32_t value;
    } bad[] = {
        {0, 0}, {0, -16}, {0, 4}, {0, 17}, {0, 18}, {0, INT32_MAX}, {0, INT32_MIN},
        {1, 0}, {1, -12}, {1, INT32_MAX},
        {2, 0}, {2, -1}, {2, INT32_MAX},
        {3, 0}, {3, -4}, {3, 3}, {3, 16}, {3, 32}, {3, INT32_MAX}, /* 16: heads of one number */
        {4, 0}, {4, -2}, {4, 3}, {4, 8}, {4, INT32_MAX},
        {5, 0}, {5, INT32_MAX}, {5, INT32_MIN + 1},
        {6, 0}, {6, -3}, {6, INT32_MAX}, {6, INT32_MIN},
    };
    static struct {
        struct checkpoint c;
        unsigned char more[4000000];
    } x;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        x.c = checkpoint(true);
        int32_t header[7];
        memcpy(header, sound, sizeof header);
        assert_int_equal(size_for(header), x.c.size);
        assert_true(tft_llama2c_probe(x.c.p, x.c.size));
        header[bad[i].field] = bad[i].value;
        set(&x.c, bad[i].field, bad[i].value);
        assert_false(tft_llama2c_probe(x.c.p, x.c.size));
        if (size_for(header))
            assert_false(tft_llama2c_probe(x.c.p, size_for(header)));

        struct tft_source s;
        struct tft_error err;
        assert_int_equal(open_pair(&s, &x.c, NULL, NULL, &err), TFT_ERR_FORMAT);
        assert_string_equal(err.msg, "m.bin: byte 0: not a complete llama2.c v0 checkpoint");
        close_pair(&s);
    }
}

static void sizes_that_wrap(void **state)
{
    (void)state;
    struct checkpoint c = {.size = 28};
    for (int i = 0; i < 7; i++)
        set(&c, i, 1 << 30);
    set(&c, 3, 1);
    set(&c, 4, 1);
    /* every product except the norms' is 0 modulo 2^64 */
    assert_false(tft_llama2c_probe(c.p, c.size));
    for (int i = 0; i < 7; i++)
        set(&c, i, INT32_MAX);
    assert_false(tft_llama2c_probe(c.p, c.size));
}

static void every_size_but_the_right_one(void **state)
{
    (void)state;
    static struct {
        struct checkpoint c;
        unsigned char more[8];
    } x;
    x.c = checkpoint(true);
    for (size_t n = 0; n < x.c.size + 8; n++)
        assert_int_equal(tft_llama2c_probe(x.c.p, n), n == x.c.size);
}

static void a_tokenizer_cut_short(void **state)
{
    (void)state;
    struct checkpoint c = checkpoint(true);
    struct blob t = tokenizer();
    for (size_t whole = t.n; t.n-- > 0;) {
        struct tft_source s;
        struct tft_error err;
        assert_int_equal(open_pair(&s, &c, &t, NULL, &err), TFT_ERR_FORMAT);
        assert_true(err.offset <= t.n && t.n < whole);
        assert_memory_equal(err.msg, "tok.bin: byte ", 14);
        assert_non_null(strstr(err.msg, t.n < 4 ? "too short" : "the file ends inside token"));
        close_pair(&s);
    }
}

static void a_tokenizer_that_is_wrong(void **state)
{
    (void)state;
    struct checkpoint c = checkpoint(true);
    static const struct {
        size_t at;
        uint32_t length;
        uint64_t offset;
        const char *what;
    } bad[] = {
        {8, UINT32_MAX, 8, "token 0 has a negative length"},
        {8, 1u << 31, 8, "token 0 has a negative length"},
        {8, INT32_MAX, 12, "the file ends inside token 0 of 261"},
        {8 + 4 + 5 + 4, UINT32_MAX, 21, "token 1 has a negative length"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct blob t = tokenizer();
        tft_store_u32(t.p + bad[i].at, bad[i].length);
        struct tft_source s;
        struct tft_error err;
        assert_int_equal(open_pair(&s, &c, &t, NULL, &err), TFT_ERR_FORMAT);
        assert_non_null(strstr(err.msg, bad[i].what));
        assert_int_equal(err.offset, bad[i].offset);
        close_pair(&s);
    }
    struct blob t = tokenizer();
    size_t end = t.n;
    blob_u32(&t, 0);
    struct tft_source s;
    struct tft_error err;
    assert_int_equal(open_pair(&s, &c, &t, NULL, &err), TFT_ERR_FORMAT);
    assert_non_null(strstr(err.msg, "more tokens than the 261 of m.bin"));
    assert_int_equal(err.offset, end);
    close_pair(&s);
}

static void no_memory(void **state)
{
    (void)state;
    struct checkpoint c = checkpoint(true);
    struct blob t = tokenizer();
    struct memory m = {0};
    struct tft_allocator a = memory_allocator(&m);
    struct tft_source s;
    assert_int_equal(open_pair(&s, &c, &t, &a, NULL), TFT_OK);
    close_pair(&s);
    assert_int_equal(m.in_use, 0);
    unsigned calls = m.calls;
    assert_true(calls > 0);
    for (unsigned i = 1; i <= calls; i++) {
        m = (struct memory){.fail_at = i};
        assert_int_equal(open_pair(&s, &c, &t, &a, NULL), TFT_ERR_NOMEM);
        close_pair(&s);
        assert_int_equal(m.in_use, 0);
    }
}

/* ---- files */

static void opened_by_its_header(void **state)
{
    (void)state;
    struct checkpoint c = checkpoint(true);
    struct blob t = tokenizer();
    const char *model = in_folder("m.bin"), *tok = in_folder("tok.bin");
    assert_true(write_file(model, c.p, c.size) && write_file(tok, t.p, t.n));
    struct tft_source s;
    struct tft_error err;
    assert_int_equal(tft_source_open(&s, model, tok, NULL, NULL), TFT_OK);
    assert_int_equal(s.n_value, 19);
    tft_source_close(&s);
    assert_int_equal(tft_source_open(&s, model, NULL, NULL, NULL), TFT_OK);
    assert_int_equal(s.n_value, 11);
    tft_source_close(&s);

    assert_int_equal(tft_source_open(&s, model, "/nowhere/tok.bin", NULL, &err), TFT_ERR_IO);
    assert_string_equal(err.msg, "/nowhere/tok.bin: cannot be read: No such file or directory");
    assert_true(write_file(tok, "", 0));
    assert_int_equal(tft_source_open(&s, model, tok, NULL, &err), TFT_ERR_FORMAT);
    assert_ptr_equal(strstr(err.msg, tok), err.msg);
    assert_true(write_file(model, c.p, c.size - 1));
    assert_int_equal(tft_source_open(&s, model, NULL, NULL, &err), TFT_ERR_FORMAT);
    assert_non_null(strstr(err.msg, "nor a complete llama2.c v0 checkpoint"));
}

/* A copy of n bytes that is aligned as tft_model_open_mem asks. */
static void *aligned_copy(const void *p, size_t n)
{
    void *copy = tft_port_alloc((n + 63) / 64 * 64, 64);
    assert_non_null(copy);
    return memcpy(copy, p, n);
}

static void opened_in_memory(void **state)
{
    (void)state;
    struct checkpoint c = checkpoint(true);
    struct blob t = tokenizer();
    const char *model = in_folder("m.bin"), *tok = in_folder("tok.bin");
    for (size_t at = 28; at < c.size; at += sizeof(float)) { /* weights that give numbers */
        float w = (float)(at * 7 % 31) / 31 - 0.4f;
        memcpy(c.p + at, &w, sizeof w);
    }
    assert_true(write_file(model, c.p, c.size) && write_file(tok, t.p, t.n));
    char *model_data = aligned_copy(c.p, c.size), *tok_data = aligned_copy(t.p, t.n);
    struct tft_model_opts by_path = {.size = sizeof by_path, .tokenizer = tok},
                          in_memory = {.size = sizeof in_memory,
                                       .tokenizer_data = tok_data,
                                       .tokenizer_size = t.n};
    struct tft_model *m[2];
    struct tft_session *s[2];
    struct tft_error err;
    size_t n[2];
    int32_t ids[2][16];
    assert_int_equal(tft_model_open(&m[0], model, &by_path, NULL), TFT_OK);
    assert_int_equal(tft_model_open_mem(&m[1], model_data, c.size, &in_memory, NULL), TFT_OK);
    for (int i = 0; i < 2; i++) {
        struct tft_session_opts o = {.size = sizeof o, .n_threads = 1};
        assert_int_equal(tft_tokenize(m[i], "hello", 5, TFT_ADD_BOS, ids[i], 16, &n[i]), TFT_OK);
        assert_int_equal(tft_session_open(&s[i], m[i], &o, NULL), TFT_OK);
        assert_int_equal(tft_decode(s[i], 1), TFT_OK);
    }
    struct tft_model_info info = {.size = sizeof info};
    tft_model_describe(m[0], &info);
    assert_int_equal(n[0], n[1]);
    assert_memory_equal(ids[0], ids[1], n[0] * sizeof *ids[0]);
    assert_memory_equal(tft_logits(s[0], 0), tft_logits(s[1], 0), info.n_vocab * sizeof(float));
    for (int i = 0; i < 2; i++) {
        tft_session_close(s[i]);
        tft_model_close(m[i]);
    }

    in_memory.tokenizer_size = t.n - 1;
    assert_int_equal(tft_model_open_mem(&m[0], model_data, c.size, &in_memory, &err),
                     TFT_ERR_FORMAT);
    assert_memory_equal(err.msg, "tokenizer_data: ", 16);
    in_memory.tokenizer = tok;
    assert_int_equal(tft_model_open_mem(&m[0], model_data, c.size, &in_memory, &err), TFT_ERR_ARG);
    tft_port_free(model_data);
    tft_port_free(tok_data);
}

static void the_real_vocabulary(void **state)
{
    (void)state;
    const char *model = model_path("stories15M.bin"),
               *tok = shared_path("models/llama2c-tokenizer.bin");
    const char *gguf = shared_path("tokenizers/ggml-vocab-llama-spm.gguf");
    if (!model || !tok || !gguf)
        skip_because("stories15M.bin or its tokenizer in shared: not found");
    struct memory m = {0};
    struct tft_allocator a = memory_allocator(&m);
    struct tft_source s, g;
    assert_int_equal(tft_source_open(&s, model, tok, &a, NULL), TFT_OK);
    assert_int_equal(tft_source_open(&g, gguf, NULL, NULL, NULL), TFT_OK);
    assert_true(m.peak < 4 * s.map[1].size);
    assert_int_equal(s.n_tensor, 2 + 9 * 6);
    check_u32(&s, "llama.embedding_length", 288);
    static const char *const same[] = {"tokenizer.ggml.tokens", "tokenizer.ggml.token_type"};
    for (int i = 0; i < 2; i++) {
        const struct tft_value *x = tft_source_value(&s, same[i]),
                               *y = tft_source_value(&g, same[i]);
        assert_int_equal(x->n, 32000);
        assert_int_equal(y->n, 32000);
        size_t bytes = 4 * 32000;
        if (x->type == TFT_VALUE_STRING) {
            const unsigned char *end = y->data;
            for (int k = 0; k < 32000; k++)
                tft_value_next_str(&end);
            bytes = (size_t)(end - y->data);
        }
        assert_memory_equal(x->data, y->data, bytes);
    }
    const struct tft_value *x = tft_source_value(&s, "tokenizer.ggml.scores"),
                           *y = tft_source_value(&g, "tokenizer.ggml.scores");
    for (uint64_t k = 0; k < 32000; k++) {
        double p = 0, q = 1;
        assert_true(tft_value_real(x, k, &p) && tft_value_real(y, k, &q) && p == q);
    }
    tft_source_close(&g);
    tft_source_close(&s);
    assert_int_equal(m.in_use, 0);
}

static void stories260k(void **state)
{
    (void)state;
    const char *model = shared_path("models/stories260K.bin"),
               *tok = shared_path("models/tok512.bin");
    if (!model || !tok)
        skip_because("shared/models/stories260K.bin or tok512.bin: not found");
    struct tft_source s;
    struct tft_error err;
    if (tft_source_open(&s, model, tok, NULL, &err))
        fail_msg("%s", err.msg);
    check_u32(&s, "llama.attention.head_count_kv", 4);
    check_u32(&s, "llama.vocab_size", 512);
    uint64_t numbers = 0;
    for (size_t i = 0; i < s.n_tensor; i++)
        numbers += s.tensor[i].ne[0] * s.tensor[i].ne[1];
    assert_int_equal(numbers, 260032);
    tft_source_close(&s);
    tok = shared_path("models/llama2c-tokenizer.bin");
    assert_int_equal(tft_source_open(&s, model, tok, NULL, &err), TFT_ERR_FORMAT);
    assert_non_null(strstr(err.msg, "more tokens than the 512 of"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_are_where_llama2c_has_them),
        cmocka_unit_test(values_of_a_llama),
        cmocka_unit_test(values_of_a_tokenizer),
        cmocka_unit_test(invalid_headers),
        cmocka_unit_test(sizes_that_wrap),
        cmocka_unit_test(every_size_but_the_right_one),
        cmocka_unit_test(a_tokenizer_cut_short),
        cmocka_unit_test(a_tokenizer_that_is_wrong),
        cmocka_unit_test(no_memory),
        cmocka_unit_test(opened_by_its_header),
        cmocka_unit_test(opened_in_memory),
        cmocka_unit_test(the_real_vocabulary),
        cmocka_unit_test(stories260k),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

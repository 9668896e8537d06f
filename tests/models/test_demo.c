/* The model that is part of the repository: it is small, can represent any text, and tells the same
   story on every machine. */
#include "test.h"

#include <string.h>

#include "simd/kernels.h"
#include "port/port.h"
#include "tuffet.h"

static const char *path; /* of the model */

static struct tft_model *opened(void)
{
    struct tft_model *m;
    struct tft_error err;
    if (tft_model_open(&m, path, NULL, &err) != TFT_OK)
        fail_msg("%s", err.msg);
    return m;
}

static void is_small(void **state)
{
    (void)state;
    struct tft_map map;
    assert_int_equal(tft_port_map(&map, path), 0);
    assert_true(map.size <= 4000000);
    tft_port_unmap(&map);

    struct tft_model *m = opened();
    struct tft_model_info info = {.size = sizeof info};
    tft_model_describe(m, &info);
    assert_string_equal(info.arch, "llama");
    assert_in_range(info.n_params, 1000000, 3000000);
    tft_model_close(m);
}

/* The tokenizer can produce every piece of the vocabulary. A piece that begins with a space is
   tokenized alone, because the tokenizer adds the space; any other piece after a newline, a byte
   token that merges with nothing. */
static void every_piece_can_be_reached(void **state)
{
    (void)state;
    enum { FIRST = 3 + 256 };
    struct tft_model *m = opened();
    struct tft_model_info info = {.size = sizeof info};
    tft_model_describe(m, &info);
    for (int32_t id = FIRST; id < (int32_t)info.n_vocab; id++) {
        char text[64] = "\n";
        size_t len, n;
        int32_t ids[8];
        const char *piece = tft_token_text(m, id, false, &len);
        bool spaced = piece[0] == ' ' && len > 1;
        assert_true(len < sizeof text - 1);
        memcpy(text + 1, piece, len);
        const char *from = spaced ? text + 2 : text; /* the tokenizer adds the space */
        size_t bytes = spaced ? len - 1 : len + 1, want = spaced ? 1 : 3;
        assert_int_equal(tft_tokenize(m, from, bytes, 0, ids, 8, &n), TFT_OK);
        if (n != want || ids[n - 1] != id)
            fail_msg("piece %d, \"%.*s\": %zu tokens", id, (int)len, piece, n);
    }
    tft_model_close(m);
}

/* Any text survives tokens and back: text without a piece becomes bytes. */
static void any_text_comes_back(void **state)
{
    (void)state;
    static const char text[] =
        "Zo\xc3\xab's <caf\xc3\xa9> cost 3 \xe2\x82\xac, ~{x}\\|^@#$%&*_+=`; "
        "\xf0\x9f\x90\x89!\n\tThe end.";
    struct tft_model *m = opened();
    int32_t ids[128];
    size_t n, at = 0;
    assert_int_equal(tft_tokenize(m, text, sizeof text - 1, 0, ids, 128, &n), TFT_OK);
    assert_true(n <= 128);
    struct tft_text t = {0};
    for (size_t i = 0; i < n; i++) {
        char out[TFT_TEXT_MAX];
        size_t len = tft_text_push(&t, m, ids[i], out);
        assert_true(at + len <= sizeof text - 1);
        assert_memory_equal(out, text + at, len);
        at += len;
    }
    assert_int_equal(at, sizeof text - 1);
    tft_model_close(m);
}

/* The story of models/demo/README.md, and FNV-1a of the bits of all logits that lead to it. */
static const char prompt[] = "Once upon a time",
                  story[] = ", there was a little girl named Lily. She loved to play outside in "
                            "the sunshine. One day, she saw a big, "
                            "scary dog. The dog was very friendly and Lily was scared. She ran "
                            "away and hid behind a tree.\n"
                            "Lily's mom came outside and saw her hiding. She asked, \"Lily, what "
                            "are you doing?\" Lily replied, \"I'm "
                            "hiding behind the tree. I'm scared.\" Her mom said, \"Don't worry, "
                            "Lily. I'll help you find your way back.\"\n"
                            "Lily and her mom searched for the dog's owner. They looked under the "
                            "tree, behind the bushes, and behind the "
                            "bushes. Finally, they found the dog's owner. The owner was very happy "
                            "and said, \"Thank you, Lily. You're a "
                            "good friend.\" Lily smiled and said, \"I'm glad I could help.\"";
static const uint64_t contract = 0x69005ef7a92ccee8;

static uint64_t hash_logits(uint64_t h, const struct tft_session *s, uint32_t n_vocab)
{
    const unsigned char *p = (const unsigned char *)tft_logits(s, 0);
    assert_non_null(p);
    for (size_t i = 0; i < n_vocab * sizeof(float); i++)
        h = (h ^ p[i]) * 0x100000001b3;
    return h;
}

/* Writes the story, by greedy decoding, to out[TFT_TEXT_MAX] and the hash of its logits to *hash.
   Returns its length. */
static size_t tell(char *out, int threads, uint64_t *hash)
{
    struct tft_model *m = opened();
    struct tft_model_info info = {.size = sizeof info};
    struct tft_session *s;
    struct tft_error err;
    struct tft_session_opts opts = {.size = sizeof opts, .n_threads = threads};
    tft_model_describe(m, &info);
    if (tft_session_open(&s, m, &opts, &err) != TFT_OK)
        fail_msg("%s", err.msg);
    int32_t ids[16];
    size_t n, len = 0;
    assert_int_equal(tft_tokenize(m, prompt, strlen(prompt), TFT_ADD_BOS, ids, 16, &n), TFT_OK);
    assert_int_equal(tft_prefill(s, ids, n), TFT_OK);
    struct tft_sampler greedy = {0};
    struct tft_text text = {.started = true};
    *hash = 0xcbf29ce484222325;
    for (;;) {
        char piece[TFT_TEXT_MAX];
        *hash = hash_logits(*hash, s, info.n_vocab);
        int32_t id = tft_sample(&greedy, s);
        if (tft_token_ends(m, id))
            break;
        size_t more = tft_text_push(&text, m, id, piece);
        assert_true(len + more <= TFT_TEXT_MAX);
        memcpy(out + len, piece, more);
        len += more;
        assert_int_equal(tft_decode(s, id), TFT_OK);
    }
    tft_session_close(s);
    tft_model_close(m);
    return len;
}

static void tells_its_story_on_every_isa(void **state)
{
    (void)state;
    char got[TFT_TEXT_MAX];
    uint64_t hash;
    for (int isa = 0; isa < tft_kernels_isas(); isa++) {
        assert_int_equal(tft_cpu_limit(tft_kernels_name(isa)), TFT_OK);
        for (int threads = 1; threads <= 3; threads += 2) {
            size_t n = tell(got, threads, &hash);
            if (n != sizeof story - 1 || memcmp(got, story, n) || hash != contract)
                fail_msg("%s, %d threads: \"%s%.*s\", 0x%016llx", tft_cpu_name(), threads, prompt,
                         (int)n, got, (unsigned long long)hash);
        }
    }
    assert_int_equal(tft_cpu_limit(NULL), TFT_OK);
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    path = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_small),
        cmocka_unit_test(every_piece_can_be_reached),
        cmocka_unit_test(any_text_comes_back),
        cmocka_unit_test(tells_its_story_on_every_isa),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Sizes above 4 GiB that small files lead to: counted in 64 bits everywhere, and refused in one
   line where a size_t has 32. The files have holes: they take little room on disk. */
#define _DEFAULT_SOURCE /* mkdtemp, MAP_ANONYMOUS */
#include "test.h"

#include "blob.h"
#include "file/llama2c.h"
#include "folder.h"
#include "kv/kv.h"
#include "models/open.h"
#include "tools/quantize/quantize.h"

#include <sys/mman.h>

/* Sizes are huge where a size_t can hold them: there, memory would really be taken. */
static void only_with_32_bits(void)
{
    if (sizeof(size_t) > 4)
        skip_because("a size_t has more than 32 bits");
}

/* ---- counted in 64 bits on every machine */

static void bytes_of_matrices(void **state)
{
    (void)state;
    struct tft_mat w = {.rows = 1 << 20, .cols = 4096};
    w.format = &tft_format_i8;
    assert_true(w.format->bytes(&w) == (1ull << 20) * (4096 + 8));
    w.format = &tft_format_f32;
    assert_true(w.format->bytes(&w) == (1ull << 34));
    w.format = tft_format_packed(TFT_Q8_0); /* 34 bytes for 32 numbers */
    assert_true(w.format->bytes(&w) == (1ull << 32) / 32 * 34);
    w.format = tft_format_low(4, 128); /* a byte more for 128 numbers */
    assert_true(w.format->bytes(&w) == (1ull << 20) * (2048 + 32 + 8));
}

static void bytes_of_blocks(void **state)
{
    (void)state;
    struct tft_kv_policy policy;
    struct tft_kv_shape shape = {.n_layer = 1 << 10, .n_head_kv = 1 << 12, .head_dim = 128};
    assert_int_equal(tft_kv_parse(&policy, "kivi", NULL), TFT_OK);
    uint64_t block = tft_kv_block_bytes(&shape, &policy), heads = 1ull << 22;
    shape.n_layer = shape.n_head_kv = 1;
    assert_true(block == heads * tft_kv_block_bytes(&shape, &policy));
    assert_true(block > UINT32_MAX);
}

/* ---- files */

struct header {
    struct blob b;
    uint64_t offset; /* where the next tensor's data goes, from that of the first */
};

static void put_u32(struct header *h, const char *key, uint32_t v)
{
    blob_key(&h->b, key, TFT_VALUE_U32);
    blob_u32(&h->b, v);
}

static void put_tensor(struct header *h, const char *name, enum tft_dtype type, uint64_t cols,
                       uint64_t rows)
{
    uint64_t bytes;
    assert_true(tft_dtype_bytes(type, cols * rows, &bytes));
    blob_str(&h->b, name);
    blob_u32(&h->b, rows ? 2 : 1);
    blob_u64(&h->b, cols);
    blob_u64(&h->b, rows);
    blob_u32(&h->b, type);
    blob_u64(&h->b, h->offset);
    h->offset = (h->offset + bytes + 31) / 32 * 32;
}

/* Writes the header, and a hole in place of the tensors' data. */
static const char *write_holes(struct header *h)
{
    const char *path = in_folder("holes.gguf");
    blob_pad(&h->b, 32);
    assert_true(write_file(path, h->b.p, h->b.n));
    assert_int_equal(truncate(path, (off_t)(h->b.n + h->offset)), 0);
    return path;
}

/* A model of one layer with a head that is tied to its embedding. */
static const char *write_gpt2(enum tft_dtype embed, uint32_t vocab, uint32_t width, uint32_t hidden)
{
    enum { HEAD = 256 };
    struct header h = {.offset = 0};
    blob_header(&h.b, 16, 8);
    blob_key(&h.b, "general.architecture", TFT_VALUE_STRING);
    blob_str(&h.b, "gpt2");
    put_u32(&h, "gpt2.context_length", 16);
    put_u32(&h, "gpt2.embedding_length", width);
    put_u32(&h, "gpt2.feed_forward_length", hidden);
    put_u32(&h, "gpt2.attention.head_count", 1);
    put_u32(&h, "gpt2.attention.key_length", HEAD);
    put_u32(&h, "gpt2.block_count", 1);
    blob_key(&h.b, "gpt2.attention.layer_norm_epsilon", TFT_VALUE_F32);
    blob_f32(&h.b, 1e-5f);
    put_tensor(&h, "token_embd.weight", embed, width, vocab);
    put_tensor(&h, "position_embd.weight", TFT_F32, width, 16);
    put_tensor(&h, "blk.0.attn_norm.weight", TFT_F32, width, 1);
    put_tensor(&h, "blk.0.attn_norm.bias", TFT_F32, width, 1);
    put_tensor(&h, "blk.0.attn_qkv.weight", TFT_IQ2_XXS, width, 3 * HEAD);
    put_tensor(&h, "blk.0.attn_qkv.bias", TFT_F32, 3 * HEAD, 1);
    put_tensor(&h, "blk.0.attn_output.weight", TFT_IQ2_XXS, HEAD, width);
    put_tensor(&h, "blk.0.attn_output.bias", TFT_F32, width, 1);
    put_tensor(&h, "blk.0.ffn_norm.weight", TFT_F32, width, 1);
    put_tensor(&h, "blk.0.ffn_norm.bias", TFT_F32, width, 1);
    put_tensor(&h, "blk.0.ffn_up.weight", TFT_IQ2_XXS, width, hidden);
    put_tensor(&h, "blk.0.ffn_up.bias", TFT_F32, hidden, 1);
    put_tensor(&h, "blk.0.ffn_down.weight", TFT_IQ2_XXS, hidden, width);
    put_tensor(&h, "blk.0.ffn_down.bias", TFT_F32, width, 1);
    put_tensor(&h, "output_norm.weight", TFT_F32, width, 1);
    put_tensor(&h, "output_norm.bias", TFT_F32, width, 1);
    return write_holes(&h);
}

/* An embedding of 2^32 numbers, 1.1 GB in 2 bits, that serves as the head too. */
static void embedding_as_floats(void **state)
{
    (void)state;
    only_with_32_bits();
    const char *path = write_gpt2(TFT_IQ2_XXS, 1 << 20, 4096, 256);
    static const enum tft_weights floats[] = {TFT_WEIGHTS_F32, TFT_WEIGHTS_F16, TFT_WEIGHTS_BF16};
    for (size_t i = 0; i < sizeof floats / sizeof *floats; i++) {
        struct tft_model_opts o = {.size = sizeof o};
        struct tft_model *m;
        struct tft_error err;
        o.weights = floats[i];
        assert_int_equal(tft_model_open(&m, path, &o, &err), TFT_ERR_NOMEM);
        assert_non_null(strstr(err.msg, "out of memory for 4095 MB of weights"));
    }
}

/* A layer of 2^32 numbers and some: as floats, 4 bytes times the rest above 2^32 would be taken,
   and then all of it be written. */
static void layer_as_floats(void **state)
{
    (void)state;
    only_with_32_bits();
    const char *path = write_gpt2(TFT_F16, 8, 65536, 32768);
    static const int32_t text[16];
    static const enum tft_range range[TFT_LAYER_INPUTS + 1] = {
        TFT_RANGE_STATIC, TFT_RANGE_STATIC, TFT_RANGE_STATIC, TFT_RANGE_STATIC, TFT_RANGE_STATIC};
    struct quantize_input result[TFT_LAYER_INPUTS + 1];
    struct tft_model_opts o = {.size = sizeof o};
    struct tft_model *m;
    struct tft_error err;
    bool stopped;
    assert_int_equal(tft_model_open_unexpanded(&m, path, &o, &err), TFT_OK);
    struct quantize_opts q = {
        .text = text, .n_text = 16, .window = 8, .range = range, .n_threads = 1};
    assert_int_equal(quantize(m, in_folder("out.gguf"), &q, result, &stopped, &err), TFT_ERR_NOMEM);
    assert_non_null(strstr(err.msg, "out of memory"));
    tft_model_close(m);
}

/* ---- a tokenizer with a text of 4 GiB when each space is U+2581 */

/* `pieces` times the same MB of spaces, then `more` bytes. The first 12 bytes are left free. NULL:
   there is no room for it. */
static unsigned char *spaces(size_t pieces)
{
    enum { PIECE = 1 << 20 };
    const char *path = in_folder("spaces");
    static char piece[PIECE];
    memset(piece, ' ', sizeof piece);
    assert_true(write_file(path, piece, sizeof piece));
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    unsigned char *all =
        mmap(NULL, pieces * PIECE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    bool ok = all != MAP_FAILED;
    for (size_t i = 0; i < pieces && ok; i++)
        ok = mmap(all + i * PIECE, PIECE, PROT_READ | (i ? 0 : PROT_WRITE), MAP_PRIVATE | MAP_FIXED,
                  fileno(f), 0) != MAP_FAILED;
    fclose(f);
    return ok ? all : NULL;
}

static void tokenizer_of_spaces(void **state)
{
    (void)state;
    only_with_32_bits();
    /* dim 8, hidden 1, a layer, a head, a KV head, one token, context 1: 4 bytes each of the
       arrays embd, 2 norms, 4 * 64, 3 * 8, norm, 2 * 4 */
    enum { NUMBERS = 8 + 8 + 4 * 64 + 8 + 3 * 8 + 8 + 2 * 4 };
    static const uint32_t shape[7] = {8, 1, 1, 1, 1, 1, 1};
    static unsigned char checkpoint[28 + 4 * NUMBERS];
    for (int i = 0; i < 7; i++)
        tft_store_u32(checkpoint + 4 * i, shape[i]);

    const size_t pieces = (UINT32_MAX / 3 >> 20) + 2, size = pieces << 20;
    unsigned char *tokens = spaces(pieces);
    if (!tokens)
        skip_because("there are no 1.4 GB of addresses");
    tft_store_u32(tokens, 1);                         /* the longest token; not read */
    tft_store_u32(tokens + 4, 0);                     /* the score */
    tft_store_u32(tokens + 8, (uint32_t)(size - 12)); /* the length */
    struct tft_source s = {.name = "checkpoint",
                           .data = checkpoint,
                           .size = sizeof checkpoint,
                           .tokenizer = tokens,
                           .tokenizer_size = size};
    struct tft_error err = {0};
    assert_int_equal(tft_llama2c_read(&s, "tokens", &err), TFT_ERR_NOMEM);
    assert_string_equal(err.msg, "tokens: out of memory for its tokens");
    munmap(tokens, size);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_of_matrices),   cmocka_unit_test(bytes_of_blocks),
        cmocka_unit_test(embedding_as_floats), cmocka_unit_test(layer_as_floats),
        cmocka_unit_test(tokenizer_of_spaces),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

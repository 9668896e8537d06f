/*
 * A checkpoint (llama2.c model.py / export.py legacy_export, read by run.c) is seven i32, then f32
 * arrays in the order of `parts` below; an array of all layers has layer after layer. The
 * vocabulary's size is negative if output.weight follows as a separate array. RoPE rotates adjacent
 * numbers, as in llama models in GGUF, so the rows of wq and wk keep their order. The precomputed
 * RoPE tables are skipped.
 *
 * A tokenizer (tokenizer.py export) is i32 longest token, then for each token f32 score, i32
 * length, bytes. The vocabulary is SentencePiece's, but with a space for the word mark U+2581 and
 * newlines around <s> and </s>; the reader undoes both changes.
 */
#include "llama2c.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/bytes.h"
#include "base/error.h"
#include "cursor.h"

enum { HEADER = 28, MAX_NAME = 40 }; /* bytes; bytes of a tensor's name, with NUL */

/* The possible sizes of tensors' dimensions. */
enum extent { ONE, DIM, KV, HIDDEN, VOCAB, SEQ, HALF_HEAD, EXTENTS };

struct shape {
    uint32_t layers, heads, kv_heads;
    bool tied; /* no output.weight: token_embd.weight serves as both */
    uint64_t extent[EXTENTS];
};

static const struct part {
    const char *name; /* "%u" is the layer; NULL: skipped */
    bool per_layer;
    enum extent row, rows; /* numbers in a row, number of rows */
} parts[] = {
    {"token_embd.weight", false, DIM, VOCAB},
    {"blk.%u.attn_norm.weight", true, DIM, ONE},
    {"blk.%u.attn_q.weight", true, DIM, DIM},
    {"blk.%u.attn_k.weight", true, DIM, KV},
    {"blk.%u.attn_v.weight", true, DIM, KV},
    {"blk.%u.attn_output.weight", true, DIM, DIM},
    {"blk.%u.ffn_norm.weight", true, DIM, ONE},
    {"blk.%u.ffn_gate.weight", true, DIM, HIDDEN}, /* w1 */
    {"blk.%u.ffn_down.weight", true, HIDDEN, DIM}, /* w2 */
    {"blk.%u.ffn_up.weight", true, DIM, HIDDEN},   /* w3 */
    {"output_norm.weight", false, DIM, ONE},
    {NULL, false, HALF_HEAD, SEQ}, /* freq_cis_real */
    {NULL, false, HALF_HEAD, SEQ}, /* freq_cis_imag */
    {"output.weight", false, DIM, VOCAB}, /* unless tied */
};

static size_t n_parts(const struct shape *h)
{
    return sizeof parts / sizeof *parts - h->tied;
}

/* ---- the header */

/* Reads the seven numbers of the header; false if the numbers are inconsistent. The least width, 8,
   is below any model's, and ensures that the names of a layer's tensors take less memory than the
   layer's data. */
static bool read_shape(const unsigned char *data, struct shape *h)
{
    int32_t v[7];
    for (int i = 0; i < 7; i++)
        v[i] = (int32_t)tft_load_u32(data + 4 * i);
    int32_t dim = v[0], hidden = v[1], layers = v[2], heads = v[3], kv_heads = v[4], vocab = v[5],
            seq = v[6];
    if (dim < 8 || hidden < 1 || layers < 1 || heads < 1 || kv_heads < 1 || vocab == 0 ||
        vocab == INT32_MIN || seq < 1)
        return false;
    if (dim % heads || dim / heads % 2 || heads % kv_heads)
        return false;

    uint64_t head = (uint64_t)(dim / heads);
    *h = (struct shape){
        .layers = (uint32_t)layers,
        .heads = (uint32_t)heads,
        .kv_heads = (uint32_t)kv_heads,
        .tied = vocab > 0,
        .extent =
            {
                [ONE] = 1,
                [DIM] = (uint64_t)dim,
                [KV] = head * (uint64_t)kv_heads,
                [HIDDEN] = (uint64_t)hidden,
                [VOCAB] = (uint64_t)(vocab > 0 ? vocab : -vocab),
                [SEQ] = (uint64_t)seq,
                [HALF_HEAD] = head / 2,
            },
    };
    return true;
}

/* *size = the size of a file of this shape; false if the size does not fit a uint64_t. */
static bool file_size(const struct shape *h, uint64_t *size)
{
    *size = HEADER;
    for (size_t i = 0; i < n_parts(h); i++) {
        const struct part *p = &parts[i];
        uint64_t bytes = h->extent[p->row] * h->extent[p->rows]; /* both below 2^31 */
        if (__builtin_mul_overflow(bytes, p->per_layer ? 4 * (uint64_t)h->layers : 4, &bytes) ||
            __builtin_add_overflow(*size, bytes, size))
            return false;
    }
    return true;
}

static bool read_header(const unsigned char *data, size_t size, struct shape *h)
{
    uint64_t expected;
    return size >= HEADER && read_shape(data, h) && file_size(h, &expected) && expected == size;
}

bool tft_llama2c_probe(const unsigned char *data, size_t size)
{
    struct shape h;
    return read_header(data, size, &h);
}

/* ---- values, in GGUF's encoding */

struct builder {
    struct tft_source *s;
    unsigned char *next; /* the place of the next bytes */
};

static struct tft_value *add(struct builder *b, const char *key, enum tft_value_type type,
                             size_t bytes)
{
    struct tft_value *v = &b->s->value[b->s->n_value++];
    *v = (struct tft_value){.key = {key, strlen(key)}, .type = type, .n = 1, .data = b->next};
    b->next += bytes;
    return v;
}

/* field: the source in the header, number 0..6; for messages. */
static void add_u32(struct builder *b, const char *key, uint64_t n, unsigned field)
{
    struct tft_value *v = add(b, key, TFT_VALUE_U32, 4);
    tft_store_u32(b->next - 4, (uint32_t)n);
    v->offset = 4 * field;
}

static void add_f32(struct builder *b, const char *key, float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    add(b, key, TFT_VALUE_F32, 4);
    tft_store_u32(b->next - 4, bits);
}

static void add_true(struct builder *b, const char *key)
{
    add(b, key, TFT_VALUE_BOOL, 1);
    b->next[-1] = 1;
}

static void put_str(struct builder *b, const char *text)
{
    tft_store_u64(b->next, strlen(text));
    memcpy(b->next + 8, text, strlen(text));
    b->next += 8 + strlen(text);
}

static void add_str(struct builder *b, const char *key, const char *text)
{
    add(b, key, TFT_VALUE_STRING, 0);
    put_str(b, text);
}

static struct tft_value *add_array(struct builder *b, const char *key, enum tft_value_type type,
                                   uint64_t n)
{
    struct tft_value *v = add(b, key, type, 0);
    v->is_array = true;
    v->n = n;
    return v;
}

/* The numbers of values of add_model and add_tokenizer, and the most bytes of all these values
   without arrays. */
enum { MODEL_VALUES = 11, TOKENIZER_VALUES = 8, VALUE_BYTES = 256 };

static void add_model(struct builder *b, const struct shape *h)
{
    add_str(b, "general.architecture", "llama");
    add_u32(b, "llama.embedding_length", h->extent[DIM], 0);
    add_u32(b, "llama.feed_forward_length", h->extent[HIDDEN], 1);
    add_u32(b, "llama.block_count", h->layers, 2);
    add_u32(b, "llama.attention.head_count", h->heads, 3);
    add_u32(b, "llama.attention.head_count_kv", h->kv_heads, 4);
    add_u32(b, "llama.vocab_size", h->extent[VOCAB], 5);
    add_u32(b, "llama.context_length", h->extent[SEQ], 6);
    add_u32(b, "llama.rope.dimension_count", 2 * h->extent[HALF_HEAD], 3);
    add_f32(b, "llama.rope.freq_base", 10000.0f);
    add_f32(b, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
}

/* ---- the tokenizer */

enum { UNKNOWN = 0, BOS = 1, EOS = 2, FIRST_BYTE = 3, LAST_BYTE = 258 };

static enum tft_token_kind kind_of(uint64_t id)
{
    if (id == UNKNOWN)
        return TFT_TOKEN_UNKNOWN;
    if (id == BOS || id == EOS)
        return TFT_TOKEN_CONTROL;
    return id >= FIRST_BYTE && id <= LAST_BYTE ? TFT_TOKEN_BYTE : TFT_TOKEN_NORMAL;
}

struct token {
    const unsigned char *score; /* f32 */
    struct tft_str text;
};

/* Reads the next token. False if the file ends (c->past_end), or if the length is negative: then
   the cursor is before the length. */
static bool next_token(struct tft_cursor *c, uint64_t id, struct token *t)
{
    t->score = tft_cursor_bytes(c, 4);
    struct tft_cursor before = *c;
    uint32_t n = tft_cursor_u32(c);
    if (n > INT32_MAX) {
        *c = before;
        return false;
    }
    const unsigned char *p = tft_cursor_bytes(c, n);
    if (!p)
        return false;
    t->text = (struct tft_str){(const char *)p, n};
    if ((id == BOS && tft_str_is(t->text, "\n<s>\n")) ||
        (id == EOS && tft_str_is(t->text, "\n</s>\n")))
        t->text = (struct tft_str){t->text.p + 1, t->text.n - 2};
    return true;
}

/* Writes the text to `out`, unless NULL, with U+2581 for spaces; returns the new length. */
static uint64_t mark_words(struct tft_str text, unsigned char *out)
{
    uint64_t n = 0;
    for (size_t i = 0; i < text.n; i++) {
        bool space = text.p[i] == ' ';
        if (out)
            memcpy(out + n, space ? "\xe2\x96\x81" : &text.p[i], space ? 3 : 1);
        n += space ? 3 : 1;
    }
    return n;
}

static struct tft_cursor first_token(const struct tft_source *s)
{
    /* after the length of the longest token */
    return (struct tft_cursor){.data = s->tokenizer, .size = s->tokenizer_size, .pos = 4};
}

/* Checks all tokens, and adds the bytes of their strings in GGUF to *bytes. */
static enum tft_status check_tokenizer(const struct tft_source *s, const char *name, uint64_t vocab,
                                       uint64_t *bytes, struct tft_error *err)
{
    if (s->tokenizer_size < 4)
        return tft_fail_at(err, TFT_ERR_FORMAT, name, 0,
                           "the file is too short for a llama2.c tokenizer");
    struct tft_cursor c = first_token(s);
    struct token t;
    for (uint64_t id = 0; id < vocab; id++) {
        if (!next_token(&c, id, &t))
            return c.past_end
                       ? tft_fail_at(err, TFT_ERR_FORMAT, name, c.pos,
                                     "the file ends inside token %llu of %llu",
                                     (unsigned long long)id, (unsigned long long)vocab)
                       : tft_fail_at(err, TFT_ERR_FORMAT, name, c.pos,
                                     "token %llu has a negative length", (unsigned long long)id);
        *bytes += 8 + mark_words(t.text, NULL); /* at most three times the file */
    }
    if (c.pos < c.size)
        return tft_fail_at(err, TFT_ERR_FORMAT, name, c.pos,
                           "the file has more tokens than the %llu of %s",
                           (unsigned long long)vocab, s->name);
    return TFT_OK;
}

static void add_tokenizer(struct builder *b, uint64_t vocab)
{
    add_str(b, "tokenizer.ggml.model", "llama");
    add_u32(b, "tokenizer.ggml.bos_token_id", BOS, 0);
    add_u32(b, "tokenizer.ggml.eos_token_id", EOS, 0);
    add_u32(b, "tokenizer.ggml.unknown_token_id", UNKNOWN, 0);
    add_true(b, "tokenizer.ggml.add_bos_token");

    struct tft_cursor c = first_token(b->s);
    struct token t;
    add_array(b, "tokenizer.ggml.scores", TFT_VALUE_F32, vocab);
    for (uint64_t id = 0; id < vocab && next_token(&c, id, &t); id++, b->next += 4)
        memcpy(b->next, t.score, 4);

    add_array(b, "tokenizer.ggml.token_type", TFT_VALUE_I32, vocab);
    for (uint64_t id = 0; id < vocab; id++, b->next += 4)
        tft_store_u32(b->next, kind_of(id));

    c = first_token(b->s);
    add_array(b, "tokenizer.ggml.tokens", TFT_VALUE_STRING, vocab);
    for (uint64_t id = 0; id < vocab && next_token(&c, id, &t); id++) {
        uint64_t n = mark_words(t.text, b->next + 8);
        tft_store_u64(b->next, n);
        b->next += 8 + n;
    }
}

/* ---- tensors */

static void add_tensor(struct builder *b, const struct shape *h, const struct part *p,
                       uint32_t layer, size_t offset)
{
    struct tft_tensor *t = &b->s->tensor[b->s->n_tensor++];
    char *name = (char *)b->next;
    snprintf(name, MAX_NAME, p->name, layer);
    b->next += MAX_NAME;
    *t = (struct tft_tensor){
        .name = {name, strlen(name)},
        .offset = offset,
        .type = TFT_F32,
        .n_dims = p->rows == ONE ? 1 : 2,
        .ne = {h->extent[p->row], h->extent[p->rows], 1, 1},
        .data = b->s->data + offset,
        .bytes = 4 * h->extent[p->row] * h->extent[p->rows],
    };
}

static void add_tensors(struct builder *b, const struct shape *h)
{
    size_t offset = HEADER;
    for (size_t i = 0; i < n_parts(h); i++) {
        const struct part *p = &parts[i];
        for (uint32_t layer = 0; layer < (p->per_layer ? h->layers : 1); layer++) {
            if (p->name)
                add_tensor(b, h, p, layer, offset);
            offset += (size_t)(4 * h->extent[p->row] * h->extent[p->rows]);
        }
    }
}

static size_t count_tensors(const struct shape *h)
{
    size_t n = 0;
    for (size_t i = 0; i < n_parts(h); i++)
        if (parts[i].name)
            n += parts[i].per_layer ? h->layers : 1;
    return n;
}

enum tft_status tft_llama2c_read(struct tft_source *s, const char *tokenizer_name,
                                 struct tft_error *err)
{
    struct shape h;
    if (!read_header(s->data, s->size, &h))
        return tft_fail_at(err, TFT_ERR_FORMAT, s->name, 0,
                           "not a complete llama2.c v0 checkpoint");

    size_t n_value = MODEL_VALUES, n_tensor = count_tensors(&h);
    size_t extra = VALUE_BYTES + n_tensor * MAX_NAME;
    if (tokenizer_name) {
        uint64_t bytes = 0;
        enum tft_status status = check_tokenizer(s, tokenizer_name, h.extent[VOCAB], &bytes, err);
        if (status)
            return status;
        n_value += TOKENIZER_VALUES;
        bytes += 8 * h.extent[VOCAB]; /* scores and types */
        if (bytes > SIZE_MAX || !tft_add(extra, (size_t)bytes, &extra))
            return tft_fail(err, TFT_ERR_NOMEM, "%s: out of memory for its tokens",
                            tokenizer_name);
    }
    struct builder b = {.s = s, .next = tft_source_reserve(s, n_value, n_tensor, extra, err)};
    if (!b.next)
        return TFT_ERR_NOMEM;

    unsigned char *end = b.next + extra;
    s->alignment = 4;
    s->n_value = s->n_tensor = 0;
    add_tensors(&b, &h);
    add_model(&b, &h);
    if (tokenizer_name)
        add_tokenizer(&b, h.extent[VOCAB]);
    assert(s->n_value == n_value && s->n_tensor == n_tensor && b.next <= end);
    (void)end;
    return tft_source_index(s, err);
}

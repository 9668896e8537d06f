/*
 * tokenizer.model: a protobuf message ModelProto (google/sentencepiece sentencepiece_model.proto).
 * These fields are read:
 *
 *      1 pieces:          1 piece (text), 2 score (f32), 3 type, numbered as in GGUF
 *      2 trainer_spec:    3 model_type (1: Unigram, 2: BPE), 40 unk_id, 41 bos_id, 42 eos_id,
 *                         43 pad_id, 24 treat_whitespace_as_suffix
 *      3 normalizer_spec: 2 precompiled_charsmap, 3 add_dummy_prefix, 4 remove_extra_whitespaces,
 *                         5 escape_whitespaces
 *
 * Lengths are checked against the rest of the enclosing message.
 */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "vocabulary.h"

/* The rest of a message. */
struct message {
    const unsigned char *p, *end;
    bool bad;
};

/* A field: a number, or bytes. */
struct field {
    uint32_t number, wire;
    uint64_t value;
    struct message bytes;
};

static uint64_t varint(struct message *m)
{
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        if (m->p == m->end)
            break;
        v |= (uint64_t)(*m->p & 0x7f) << shift;
        if (!(*m->p++ & 0x80))
            return v;
    }
    m->bad = true;
    return 0;
}

static const unsigned char *bytes(struct message *m, uint64_t n)
{
    const unsigned char *p = m->p;
    if (n > (uint64_t)(m->end - m->p)) {
        m->bad = true;
        return NULL;
    }
    m->p += n;
    return p;
}

/* The next field; false at the end of the message or after damage. */
static bool next_field(struct message *m, struct field *f)
{
    if (m->bad || m->p == m->end)
        return false;
    uint64_t key = varint(m), n = 0;
    *f = (struct field){.number = (uint32_t)(key >> 3), .wire = key & 7};
    if (f->wire == 0)
        f->value = varint(m);
    else if (f->wire == 2)
        n = varint(m);
    else if (f->wire == 1 || f->wire == 5)
        n = f->wire == 1 ? 8 : 4;
    else
        m->bad = true;
    f->bytes.p = m->bad ? NULL : bytes(m, n);
    f->bytes.end = f->bytes.p ? f->bytes.p + n : NULL;
    if (!m->bad && f->wire == 5)
        f->value = tft_load_u32(f->bytes.p);
    return !m->bad;
}

static bool read_piece(struct import_vocabulary *v, uint64_t id, struct message m)
{
    struct field f;
    struct tft_str text = {"", 0};
    uint32_t bits = 0;
    uint64_t type = TFT_TOKEN_NORMAL;
    float score;
    while (next_field(&m, &f))
        if (f.number == 1 && f.wire == 2)
            text = (struct tft_str){(const char *)f.bytes.p, (size_t)(f.bytes.end - f.bytes.p)};
        else if (f.number == 2 && f.wire == 5)
            bits = (uint32_t)f.value;
        else if (f.number == 3 && f.wire == 0)
            type = f.value;
    memcpy(&score, &bits, sizeof score);
    if (m.bad || type < TFT_TOKEN_NORMAL || type > TFT_TOKEN_BYTE) {
        VOCABULARY_BAD(v, "piece %llu is damaged", (unsigned long long)id);
        return false;
    }
    if (type == TFT_TOKEN_UNKNOWN && v->unknown < 0)
        v->unknown = (int64_t)id;
    return vocabulary_add(v, id, text, (int32_t)type, score);
}

/* An id, which is an int32 that may be -1. */
static int64_t id_of(uint64_t value, size_t n) { return value < n ? (int64_t)value : -1; }

static void read_trainer(struct import_vocabulary *v, struct message *m)
{
    struct field f;
    uint64_t type = 1;
    v->unknown = 0;
    v->bos = id_of(1, v->n);
    v->eos = id_of(2, v->n);
    while (next_field(m, &f)) {
        if (f.wire != 0)
            continue;
        switch (f.number) {
        case 3: type = f.value; break;
        case 24:
            if (f.value)
                VOCABULARY_UNSUPPORTED(v, "%s is not supported", "treat_whitespace_as_suffix");
            break;
        case 40: v->unknown = id_of(f.value, v->n); break;
        case 41: v->bos = id_of(f.value, v->n); break;
        case 42: v->eos = id_of(f.value, v->n); break;
        case 43: v->pad = id_of(f.value, v->n); break;
        }
    }
    v->model = type == 1 ? "t5" : type == 2 ? "llama" : NULL;
    if (!v->model)
        VOCABULARY_UNSUPPORTED(v, "model_type %llu is not supported, but Unigram and BPE are",
                               (unsigned long long)type);
}

static void read_normalizer(struct import_vocabulary *v, struct message *m)
{
    struct field f;
    v->space_first = v->merges_spaces = true; /* the defaults of the format */
    while (next_field(m, &f))
        if (f.number == 3 && f.wire == 0) {
            v->space_first = f.value != 0;
        } else if (f.number == 4 && f.wire == 0) {
            v->merges_spaces = f.value != 0;
        } else if (f.number == 5 && f.wire == 0 && !f.value) {
            VOCABULARY_UNSUPPORTED(v, "%s false is not supported", "escape_whitespaces");
        } else if (f.number == 2 && f.wire == 2 && f.bytes.p < f.bytes.end && !v->charsmap) {
            v->n_charsmap = (size_t)(f.bytes.end - f.bytes.p);
            v->charsmap = malloc(v->n_charsmap);
            if (v->charsmap)
                memcpy(v->charsmap, f.bytes.p, v->n_charsmap);
            else
                VOCABULARY_FAIL(v, TFT_ERR_NOMEM, "%s: out of memory", v->path);
        }
}

/* Whether the first line is a token in base64 and its rank: OpenAI's tiktoken, which some folders
   have under this name. */
static bool is_tiktoken(const unsigned char *data, size_t size)
{
    size_t n = 0, digits = 0;
    while (n < size && n < 1024 && data[n] > ' ' && data[n] < 0x7f)
        n++;
    if (!n || n == size || data[n] != ' ')
        return false;
    while (n + 1 + digits < size && data[n + 1 + digits] >= '0' && data[n + 1 + digits] <= '9')
        digits++;
    return digits && n + 1 + digits < size && data[n + 1 + digits] == '\n';
}

/* SentencePiece looks for user-defined symbols after it has put a space first. Unigram does not cut
   the text at them, but gives them a score that is nearly always the best. */
static void finish_symbols(struct import_vocabulary *v)
{
    for (size_t i = 0; i < v->n && !v->im->status; i++) {
        if (v->type[i] != TFT_TOKEN_USER || !v->space_first)
            continue;
        v->flags[i] |= VOCABULARY_NORMALIZED;
        if (strcmp(v->model, "llama") != 0)
            VOCABULARY_UNSUPPORTED(v,
                                   "token %zu, \"%.*s\", is a user-defined symbol, which is not "
                                   "supported with add_dummy_prefix and Unigram",
                                   i, TFT_STR_ARG(v->token[i]));
    }
}

void vocabulary_read_model(struct import_vocabulary *v, const unsigned char *data, size_t size)
{
    struct message m = {data, data + size, false};
    struct field f;
    uint64_t n = 0;
    v->by_character = v->scored = v->of_pieces = true;
    if (is_tiktoken(data, size)) {
        VOCABULARY_UNSUPPORTED(v, "%s", "this is a vocabulary of tiktoken, not a model of "
                                        "SentencePiece: the folder needs a tokenizer.json");
        return;
    }
    while (!v->im->status && next_field(&m, &f)) {
        if (f.wire != 2)
            continue;
        if (f.number == 1)
            read_piece(v, n++, f.bytes);
        else if (f.number == 2)
            read_trainer(v, &f.bytes);
        else if (f.number == 3)
            read_normalizer(v, &f.bytes);
        m.bad = m.bad || f.bytes.bad;
    }
    if (m.bad || !n || !v->model)
        VOCABULARY_BAD(v, "byte %zu: this is not a model of SentencePiece", (size_t)(m.p - data));
    finish_symbols(v);
}

/*
 * teach-export CHECKPOINT TOKENIZER OUT
 *
 * Writes the student as GGUF v3, with matrices in f16.
 */
#include "checkpoint.h"
#include "file/file.h"
#include "simd/half.h"
#include "spm.h"
#include "tool.h"

#include <stdlib.h>

enum { FILE_TYPE_F16 = 1 }; /* general.file_type: ggml docs/gguf.md */

static struct tft_str str(const char *text)
{
    return (struct tft_str){text, strlen(text)};
}

static void put_shape(struct tft_gguf_writer *w, const struct shape *s)
{
    tft_gguf_put_str(w, "general.architecture", str("llama"));
    tft_gguf_put_str(w, "general.name", str("tuffet demo stories"));
    tft_gguf_put_str(w, "general.license", str("apache-2.0"));
    tft_gguf_put_u32(w, "general.file_type", FILE_TYPE_F16);
    tft_gguf_put_u32(w, "llama.vocab_size", (uint32_t)s->vocab);
    tft_gguf_put_u32(w, "llama.context_length", (uint32_t)s->context);
    tft_gguf_put_u32(w, "llama.embedding_length", (uint32_t)s->dim);
    tft_gguf_put_u32(w, "llama.block_count", (uint32_t)s->layers);
    tft_gguf_put_u32(w, "llama.feed_forward_length", (uint32_t)s->ffn);
    tft_gguf_put_u32(w, "llama.attention.head_count", (uint32_t)s->heads);
    tft_gguf_put_u32(w, "llama.attention.head_count_kv", (uint32_t)s->kv_heads);
    tft_gguf_put_f32(w, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    tft_gguf_put_u32(w, "llama.rope.dimension_count", (uint32_t)head_dim(s));
    tft_gguf_put_f32(w, "llama.rope.freq_base", 10000.0f);
}

static int32_t token_type(int id)
{
    return id == ID_UNK    ? TFT_TOKEN_UNKNOWN
           : id < ID_BYTE  ? TFT_TOKEN_CONTROL
           : id < ID_PIECE ? TFT_TOKEN_BYTE
                           : TFT_TOKEN_NORMAL;
}

/* A piece as SentencePiece writes it: U+2581 for a space. */
static struct tft_str token_text(const struct spm *spm, int id)
{
    static const char *const special[] = {"<unk>", "<s>", "</s>"};
    if (id < ID_BYTE)
        return str(special[id]);
    char *out = take(3 * (size_t)spm->len[id] + 1, 1), *end = out;
    for (const char *c = spm->text[id]; *c; c++) {
        if (*c == ' ') {
            memcpy(end, "\xe2\x96\x81", 3);
            end += 3;
        } else {
            *end++ = *c;
        }
    }
    return str(out);
}

static void put_tokenizer(struct tft_gguf_writer *w, const struct spm *spm)
{
    size_t n = (size_t)spm->n;
    struct tft_str *text = take(n, sizeof *text);
    int32_t *type = take(n, sizeof *type);
    for (int i = 0; i < spm->n; i++) {
        text[i] = token_text(spm, i);
        type[i] = token_type(i);
    }
    tft_gguf_put_str(w, "tokenizer.ggml.model", str("llama"));
    tft_gguf_put_strs(w, "tokenizer.ggml.tokens", text, n);
    tft_gguf_put_array(w, "tokenizer.ggml.scores", TFT_VALUE_F32, spm->score, n);
    tft_gguf_put_array(w, "tokenizer.ggml.token_type", TFT_VALUE_I32, type, n);
    tft_gguf_put_u32(w, "tokenizer.ggml.bos_token_id", ID_BOS);
    tft_gguf_put_u32(w, "tokenizer.ggml.eos_token_id", ID_EOS);
    tft_gguf_put_u32(w, "tokenizer.ggml.unknown_token_id", ID_UNK);
    tft_gguf_put_bool(w, "tokenizer.ggml.add_bos_token", true);
    tft_gguf_put_bool(w, "tokenizer.ggml.add_eos_token", false);
}

struct tensor {
    char name[64];
    const float *data;
    int rows, columns; /* columns 0: a vector */
};

static size_t count(const struct tensor *t)
{
    return (size_t)t->rows * (size_t)(t->columns ? t->columns : 1);
}

static struct tensor named(const char *name, const float *data, int rows, int columns)
{
    struct tensor t = {.data = data, .rows = rows, .columns = columns};
    snprintf(t.name, sizeof t.name, "%s.weight", name);
    return t;
}

static struct tensor of_layer(int layer, const char *name, const float *all, int rows, int columns)
{
    struct tensor t = {.rows = rows, .columns = columns};
    t.data = all + (size_t)layer * count(&t);
    snprintf(t.name, sizeof t.name, "blk.%d.%s.weight", layer, name);
    return t;
}

/* Lists the tensors in the order in which a forward pass reads them. */
static size_t list_tensors(struct tensor *t, const struct shape *s, const struct params *p)
{
    int d = s->dim, f = s->ffn, kd = kv_dim(s);
    size_t n = 0;
    t[n++] = named("token_embd", p->embed, s->vocab, d);
    for (int i = 0; i < s->layers; i++) {
        t[n++] = of_layer(i, "attn_norm", p->att_norm, d, 0);
        t[n++] = of_layer(i, "attn_q", p->wq, d, d);
        t[n++] = of_layer(i, "attn_k", p->wk, kd, d);
        t[n++] = of_layer(i, "attn_v", p->wv, kd, d);
        t[n++] = of_layer(i, "attn_output", p->wo, d, d);
        t[n++] = of_layer(i, "ffn_norm", p->ffn_norm, d, 0);
        t[n++] = of_layer(i, "ffn_gate", p->gate, f, d);
        t[n++] = of_layer(i, "ffn_up", p->up, f, d);
        t[n++] = of_layer(i, "ffn_down", p->down, d, f);
    }
    t[n++] = named("output_norm", p->out_norm, d, 0);
    return n;
}

static void describe(struct tft_gguf_writer *w, const struct tensor *t)
{
    const uint64_t matrix[] = {(uint64_t)t->columns, (uint64_t)t->rows};
    if (t->columns)
        tft_gguf_put_tensor(w, str(t->name), TFT_F16, 2, matrix);
    else
        tft_gguf_put_tensor(w, str(t->name), TFT_F32, 1, matrix + 1);
}

static void put_data(struct tft_gguf_writer *w, const struct tensor *t)
{
    size_t n = count(t);
    if (!t->columns) {
        tft_gguf_put_data(w, t->data, n * sizeof *t->data);
        return;
    }
    uint16_t *half = take(n, sizeof *half);
    for (size_t i = 0; i < n; i++)
        half[i] = tft_f32_to_f16(t->data[i]);
    tft_gguf_put_data(w, half, n * sizeof *half);
    free(half);
}

static void put_tensors(struct tft_gguf_writer *w, const struct shape *s, const struct params *p)
{
    struct tensor *t = take(9 * (size_t)s->layers + 2, sizeof *t);
    size_t n = list_tensors(t, s, p);
    for (size_t i = 0; i < n; i++)
        describe(w, &t[i]);
    for (size_t i = 0; i < n; i++)
        put_data(w, &t[i]);
    free(t);
}

int main(int argc, char **argv)
{
    if (argc != 4)
        die("usage: teach-export CHECKPOINT TOKENIZER OUT");
    struct shape s;
    float *flat = checkpoint_read(&s, argv[1]);
    struct params p = params_at(&s, flat);
    struct spm spm;
    spm_read(&spm, argv[2]);
    if (spm.n != s.vocab)
        die("%s: has %d pieces, but the checkpoint has %d", argv[2], spm.n, s.vocab);
    struct tft_gguf_writer *w;
    struct tft_error err;
    if (tft_gguf_create(&w, argv[3], &err))
        die("%s", err.msg);
    put_shape(w, &s);
    put_tokenizer(w, &spm);
    put_tensors(w, &s, &p);
    if (tft_gguf_close(w, true, &err))
        die("%s", err.msg);
    return 0;
}

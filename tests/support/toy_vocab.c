#include <stdio.h>
#include <string.h>

#include "file/file.h"
#include "toy.h"

enum { NORMAL = 1, UNKNOWN = 2, CONTROL = 3, UNUSED = 5, BYTE = 6 }; /* tokenizer.ggml.token_type */
enum { TEXT_MAX = 24 };

struct vocab {
    bool spm;
    char text[TOY_VOCAB][TEXT_MAX], merge[64][2 * TEXT_MAX];
    float score[TOY_VOCAB];
    int32_t type[TOY_VOCAB];
    uint32_t n, n_merge;
};

/* Pairs of pieces that merge into one, best first. A piece is a character or was merged before. '_'
   is a space, '^' a newline. */
static const char *const merges[] = {
    "t h",    "th e",    "_ the",  "a n", "an d",  "_ and",  "_ a",    "h e",     "he l",   "l o",
    "hel lo", "_ hello", "o n",    "c e", "on ce", "_ once", "p on",   "u pon",   "_ upon", "i m",
    "im e",   "t ime",   "_ time", "w o", "r l",   "rl d",   "wo rld", "_ world", "i n",    "^ ^",
};

/* Special tokens inside a chat, and tokens that end a text or a turn. */
static const char *const marks[] = {"<|im_start|>",     "<|system|>",      "<|user|>",
                                    "<|assistant|>",    "<start_of_turn>", "<|start_header_id|>",
                                    "<|end_header_id|>"};
static const char *const ends[] = {"<|endoftext|>", "<|im_end|>", "<|end|>", "<end_of_turn>",
                                   "<|eot_id|>"};

/* Tokens before the parts of a text with a gap. */
static const char *const fims[] = {"<fim_prefix>", "<fim_suffix>", "<fim_middle>"};

#define COUNT(array) (sizeof(array) / sizeof *(array))

static int32_t add(struct vocab *v, const char *text, int32_t type)
{
    snprintf(v->text[v->n], TEXT_MAX, "%s", text);
    v->score[v->n] = type == NORMAL ? -(float)v->n : 0;
    v->type[v->n] = type;
    return (int32_t)v->n++;
}

/* A byte as GPT-2's vocabulary writes it (openai/gpt-2 encoder.py, bytes_to_unicode). */
static const char *spell_byte(int byte)
{
    static char out[3];
    int c = 0x100;
    if ((byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte != 0xad))
        c = byte;
    else
        for (int b = 0; b < byte; b++)
            c += !((b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b != 0xad));
    snprintf(out, sizeof out, c < 0x80 ? "%c" : "%c%c", c < 0x80 ? c : 0xc0 | c >> 6,
             0x80 | (c & 0x3f));
    return out;
}

/* Appends n characters of a piece of merges[] to out, as the vocabulary spells them. */
static void spell(char *out, const char *piece, size_t n, bool spm)
{
    for (out += strlen(out); n--; piece++, out += strlen(out))
        if (*piece == '_')
            strcpy(out, spm ? "\xe2\x96\x81" : "\xc4\xa0");
        else if (*piece == '^' && !spm)
            strcpy(out, "\xc4\x8a");
        else
            memcpy(out, (const char[]){*piece, 0}, 2);
}

static void add_merges(struct vocab *v)
{
    for (size_t i = 0; i < COUNT(merges); i++) {
        size_t cut = strcspn(merges[i], " ");
        char text[TEXT_MAX] = "", *merge = v->merge[v->n_merge++];
        spell(text, merges[i], cut, v->spm);
        spell(text, merges[i] + cut + 1, strlen(merges[i] + cut + 1), v->spm);
        add(v, text, NORMAL);
        spell(merge, merges[i], cut, v->spm);
        strcat(merge, " ");
        spell(merge, merges[i] + cut + 1, strlen(merges[i] + cut + 1), v->spm);
    }
}

/* All bytes, and for "llama" printable ASCII. */
static void add_characters(struct vocab *v)
{
    char text[TEXT_MAX];
    for (int byte = 0; byte < 256; byte++) {
        snprintf(text, sizeof text, "<0x%02X>", byte);
        add(v, v->spm ? text : spell_byte(byte), v->spm ? BYTE : NORMAL);
    }
    for (char c = 0x21; c < 0x7f && v->spm; c++)
        add(v, (const char[]){c, 0}, NORMAL);
    if (v->spm)
        add(v, "\xe2\x96\x81", NORMAL);
}

static void put(struct tft_gguf_writer *w, const struct vocab *v)
{
    struct tft_str text[TOY_VOCAB], merge[64];
    for (uint32_t i = 0; i < v->n; i++)
        text[i] = (struct tft_str){v->text[i], strlen(v->text[i])};
    for (uint32_t i = 0; i < v->n_merge; i++)
        merge[i] = (struct tft_str){v->merge[i], strlen(v->merge[i])};
    tft_gguf_put_strs(w, "tokenizer.ggml.tokens", text, v->n);
    tft_gguf_put_array(w, "tokenizer.ggml.token_type", TFT_VALUE_I32, v->type, v->n);
    if (v->spm)
        tft_gguf_put_array(w, "tokenizer.ggml.scores", TFT_VALUE_F32, v->score, v->n);
    else
        tft_gguf_put_strs(w, "tokenizer.ggml.merges", merge, v->n_merge);
}

void toy_put_vocab(struct tft_gguf_writer *w, const char *kind, bool endless, bool fim)
{
    static struct vocab v;
    v = (struct vocab){.spm = strcmp(kind, "llama") == 0};
    int32_t bos = -1, eos = -1;
    if (v.spm) {
        add(&v, "<unk>", UNKNOWN);
        bos = add(&v, "<s>", CONTROL);
        eos = add(&v, endless ? "<no end>" : "</s>", endless ? UNUSED : CONTROL);
    }
    add_characters(&v);
    add_merges(&v);
    for (size_t i = 0; i < COUNT(marks); i++)
        add(&v, marks[i], CONTROL);
    for (size_t i = 0; i < COUNT(ends) && !endless; i++)
        if (add(&v, ends[i], CONTROL) && i == 0 && !v.spm)
            bos = eos = (int32_t)v.n - 1;
    add(&v, "<think>", CONTROL);
    add(&v, "</think>", CONTROL);
    for (size_t i = 0; i < COUNT(fims) && fim; i++)
        add(&v, fims[i], CONTROL);
    while (v.n < TOY_VOCAB) {
        char text[TEXT_MAX];
        snprintf(text, sizeof text, "<unused %u>", v.n);
        add(&v, text, UNUSED);
    }

    tft_gguf_put_str(w, "tokenizer.ggml.model", (struct tft_str){kind, strlen(kind)});
    if (!v.spm)
        tft_gguf_put_str(w, "tokenizer.ggml.pre", (struct tft_str){"qwen2", 5});
    if (bos >= 0)
        tft_gguf_put_u32(w, "tokenizer.ggml.bos_token_id", (uint32_t)bos);
    if (eos >= 0 && !endless)
        tft_gguf_put_u32(w, "tokenizer.ggml.eos_token_id", (uint32_t)eos);
    put(w, &v);
}

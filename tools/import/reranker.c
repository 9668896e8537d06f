/*
 * Qwen3-Reranker (Zhang et al. 2025, arXiv 2506.05176), whose folder is one of Qwen3: the name of
 * the folder tells it apart. Its score is the probability of "yes" against "no" after its prompt.
 * As in llama.cpp's files, the rows of these two tokens in the output matrix become a classifier,
 * and the prompt a template.
 */
#include "reranker.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"

static const char answers[2][4] = {"yes", "no"};

/* The model's card, section "Transformers Usage", with its default task. */
static const char prompt[] =
    "<|im_start|>system\n"
    "Judge whether the Document meets the requirements based on the Query and the Instruct "
    "provided. Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n"
    "<|im_start|>user\n"
    "<Instruct>: Given a web search query, retrieve relevant passages that answer the query\n"
    "<Query>: {query}\n"
    "<Document>: {document}<|im_end|>\n"
    "<|im_start|>assistant\n"
    "<think>\n\n</think>\n\n";

static bool has_name(const char *path)
{
    static const char name[] = "qwen3-reranker";
    for (; *path; path++) {
        size_t i = 0;
        while (name[i] && tolower((unsigned char)path[i]) == name[i])
            i++;
        if (!name[i])
            return true;
    }
    return false;
}

/* The numbers of both tokens. Returns false after a failure. */
static bool find_answers(struct import *im, uint64_t id[2])
{
    json_t *tokenizer = NULL;
    char *path = import_path(im->folder.path, "tokenizer.json");
    im->status = path ? import_json_read(&tokenizer, path, false, im->err)
                      : import_error(im->err, TFT_ERR_NOMEM, "%s: out of memory", im->folder.path);
    const json_t *vocab = json_object_get(json_object_get(tokenizer, "model"), "vocab");
    for (int i = 0; i < 2 && im->status == TFT_OK; i++)
        if (!import_json_whole(json_object_get(vocab, answers[i]), INT32_MAX, &id[i]))
            import_fail(im, TFT_ERR_FORMAT, "%s: a reranker without a token \"%s\"", path,
                        answers[i]);
    json_decref(tokenizer);
    free(path);
    return im->status == TFT_OK;
}

/* The output matrix; NULL after a failure. */
static const struct safetensor *find_head(struct import *im, const unsigned char **data)
{
    static const char *const names[] = {"lm_head.weight", "model.embed_tokens.weight",
                                        "embed_tokens.weight"};
    const struct safetensor *t = NULL;
    for (size_t i = import_flag(im, "tie_word_embeddings", false); i < 3 && !t; i++)
        t = import_folder_find(&im->folder, names[i], data);
    if (t && t->floats && !t->matrix && t->n_dims == 2 && t->ne[0] == im->n_embd)
        return t;
    import_fail(im, TFT_ERR_UNSUPPORTED,
                "%s: a reranker without an output matrix of floats is not supported",
                im->folder.path);
    return NULL;
}

/* Adds a tensor with the two rows. */
static void add_rows(struct import *im, const struct safetensor *head, const unsigned char *data,
                     const uint64_t id[2])
{
    enum { HEADER = 256 };
    uint64_t row = head->bytes / head->ne[1];
    size_t n = 8 + HEADER + 2 * (size_t)row;
    unsigned char *file = calloc(1, n);
    if (!file) {
        import_fail(im, TFT_ERR_NOMEM, "%s: out of memory", im->folder.path);
        return;
    }
    im->made = file;
    file[1] = HEADER >> 8;
    int len = snprintf((char *)file + 8, HEADER,
                       "{\"yes_no.weight\":{\"dtype\":\"%s\",\"shape\":[2,%llu],"
                       "\"data_offsets\":[0,%llu]}}",
                       head->dtype, (unsigned long long)im->n_embd, (unsigned long long)(2 * row));
    memset(file + 8 + len, ' ', (size_t)(HEADER - len));
    for (int i = 0; i < 2; i++)
        memcpy(file + 8 + HEADER + i * row, data + id[i] * row, (size_t)row);
    im->status = import_folder_add_made(&im->folder, im->folder.path, file, n, im->err);
    im->encoder.labels = 2;
}

void import_reranker_dimensions(struct import *im)
{
    uint64_t id[2];
    const unsigned char *data;
    if (!has_name(im->folder.path) || !find_answers(im, id))
        return;
    const struct safetensor *head = find_head(im, &data);
    if (head && (id[0] >= head->ne[1] || id[1] >= head->ne[1]))
        import_fail(im, TFT_ERR_FORMAT, "%s: the output matrix has no rows for \"yes\" and \"no\"",
                    im->folder.path);
    else if (head)
        add_rows(im, head, data, id);
}

void import_reranker_values(struct import *im)
{
    enum { RANK = 4 };
    const struct tft_str labels[2] = {{answers[0], strlen(answers[0])},
                                      {answers[1], strlen(answers[1])}};
    if (!im->encoder.labels)
        return;
    tft_gguf_put_u32(im->gguf, import_key(im, "pooling_type"), RANK);
    tft_gguf_put_strs(im->gguf, import_key(im, "classifier.output_labels"), labels, 2);
    tft_gguf_put_str(im->gguf, "tokenizer.chat_template.rerank",
                     (struct tft_str){prompt, sizeof prompt - 1});
}

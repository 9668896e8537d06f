/*
 * The input is a tokenizer.json, if it begins with '{', or else a tokenizer.model.
 */
#include "fuzz.h"

#include "tools/import/vocabulary.h"

enum { ROWS = 64 };

static void check(const struct import_vocabulary *v)
{
    MUST(v->model);
    for (size_t i = 0; i < v->n; i++) {
        MUST(!v->token[i].p || (v->type[i] >= TFT_TOKEN_NORMAL && v->type[i] <= TFT_TOKEN_BYTE));
        if (v->token[i].p)
            touch(v->token[i].p, v->token[i].n);
    }
    for (size_t i = 0; i < v->n_merge; i++) {
        MUST(v->merge[i].n >= 2);
        touch(v->merge[i].p, v->merge[i].n);
    }
    touch(v->charsmap, v->n_charsmap);
    MUST(v->unknown < (int64_t)v->n && v->bos < (int64_t)v->n && v->eos < (int64_t)v->n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tft_error err = {0};
    struct import im = {.folder = {.path = "folder"}, .n_vocab = ROWS, .err = &err};
    struct import_vocabulary v;
    json_t *root = NULL;
    MUST(vocabulary_start(&v, &im, ROWS));
    if (size && *data == '{') {
        im.status = import_json_parse(&root, "tokenizer.json", data, size, JSON_ALLOW_NUL, &err);
        if (!im.status)
            vocabulary_read_json(&v, root);
    } else {
        vocabulary_read_model(&v, data, size);
    }
    if (!im.status)
        check(&v);
    else
        MUST(*err.msg && !strchr(err.msg, '\n'));
    vocabulary_end(&v);
    json_decref(root);
    return 0;
}

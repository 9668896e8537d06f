#include "vocabulary.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

bool vocabulary_start(struct import_vocabulary *v, struct import *im, size_t n)
{
    *v = (struct import_vocabulary){.im = im,
                                    .path = im->folder.path,
                                    .n = n,
                                    .bos = -1,
                                    .eos = -1,
                                    .unknown = -1,
                                    .pad = -1,
                                    .eot = -1,
                                    .eom = -1,
                                    .cls = -1,
                                    .sep = -1,
                                    .mask = -1,
                                    .last = -1,
                                    .strip_accents = -1,
                                    .add_bos = -1,
                                    .add_eos = -1,
                                    .add_sep = -1};
    v->token = calloc(n, sizeof *v->token);
    v->type = calloc(n, sizeof *v->type);
    v->score = calloc(n, sizeof *v->score);
    v->flags = calloc(n, sizeof *v->flags);
    if (v->token && v->type && v->score && v->flags)
        return true;
    VOCABULARY_FAIL(v, TFT_ERR_NOMEM, "%s: out of memory", v->path);
    return false;
}

void vocabulary_end(struct import_vocabulary *v)
{
    free(v->token);
    free(v->type);
    free(v->score);
    free(v->flags);
    free(v->merge);
    free(v->text);
    free(v->nul);
    free(v->symbols);
    free(v->charsmap);
}

bool vocabulary_add(struct import_vocabulary *v, uint64_t id, struct tft_str text, int32_t type,
                    float score)
{
    if (id >= v->n) {
        VOCABULARY_BAD(v, "token %" PRIu64 ", \"%.*s\", has no row in the embedding of %zu", id,
                       TFT_STR_ARG(text), v->n);
        return false;
    }
    if (text.n > VOCABULARY_MOST_NAME) {
        VOCABULARY_UNSUPPORTED(v, "token %" PRIu64 " has %zu bytes; at most %d are supported", id,
                               text.n, VOCABULARY_MOST_NAME);
        return false;
    }
    struct tft_str old = v->token[id];
    if (old.p && (old.n != text.n || memcmp(old.p, text.p, text.n) != 0)) {
        VOCABULARY_BAD(v, "\"%.*s\" and \"%.*s\" have the same id %" PRIu64, TFT_STR_ARG(old),
                       TFT_STR_ARG(text), id);
        return false;
    }
    v->token[id] = text;
    v->type[id] = type;
    v->score[id] = score;
    return true;
}

int64_t vocabulary_find(const struct import_vocabulary *v, struct tft_str text)
{
    for (size_t i = 0; i < v->n; i++)
        if (v->token[i].p && v->token[i].n == text.n && !memcmp(v->token[i].p, text.p, text.n))
            return (int64_t)i;
    return -1;
}

bool vocabulary_is_byte(struct tft_str s)
{
    static const char digits[] = "0123456789ABCDEF";
    return s.n == 6 && !memcmp(s.p, "<0x", 3) && s.p[5] == '>' && s.p[3] && s.p[4] &&
           strchr(digits, s.p[3]) && strchr(digits, s.p[4]);
}

/* The functions for tuffet.js: a model and one session of it, by numbers and pointers alone. Each
   instance of this module has memory of its own, and opens one model. Built by
   tools/scripts/wasm.sh. */
#include <emscripten.h>
#include <stdlib.h>
#include <string.h>

#include "tuffet.h"

struct story {
    struct tft_model *model;
    struct tft_session *session;
    struct tft_sampler sampler;
    struct tft_text text;
    char piece[TFT_TEXT_MAX];
};

static struct tft_error error;

/* Why the last call failed: one line. */
EMSCRIPTEN_KEEPALIVE const char *story_error(void)
{
    return error.msg;
}

/* Memory for a file that story_open takes, for good: tft_model_open_mem needs an alignment of
   32. */
EMSCRIPTEN_KEEPALIVE void *story_memory(size_t size)
{
    void *data;
    return posix_memalign(&data, 32, size) ? NULL : data;
}

/* file: [size] in memory of story_memory. capacity: in tokens; 0: the model's. NULL: story_error
   says why. */
EMSCRIPTEN_KEEPALIVE struct story *story_open(const void *file, size_t size, uint32_t capacity)
{
    static struct story s;
    struct tft_session_opts opts = {.size = sizeof opts, .capacity = capacity};
    if (tft_model_open_mem(&s.model, file, size, NULL, &error) != TFT_OK ||
        tft_session_open(&s.session, s.model, &opts, &error) != TFT_OK)
        return NULL;
    return &s;
}

static enum tft_status failed(struct story *s, enum tft_status status)
{
    if (status == TFT_OK)
        return TFT_OK;
    const struct tft_error *e = tft_session_error(s->session);
    error = e->code == status ? *e : (struct tft_error){.code = status};
    if (!error.msg[0])
        strncpy(error.msg, tft_status_text(status), sizeof error.msg - 1);
    return status;
}

/* Makes the session hold text[len], UTF-8; the common beginning of the old and the new text is not
   computed again. Then story_next continues it; seed and the others as in struct tft_sampler. */
EMSCRIPTEN_KEEPALIVE enum tft_status story_begin(struct story *s, const char *text, size_t len,
                                                 float temperature, float top_p, float min_p,
                                                 uint32_t seed)
{
    size_t n, room = len + 2; /* a byte is a token at most; a space and BOS come before them */
    int32_t *ids = malloc(room * sizeof *ids);
    enum tft_status status = TFT_ERR_NOMEM;
    if (ids)
        status = tft_tokenize(s->model, text, len, TFT_ADD_BOS, ids, room, &n);
    if (status == TFT_OK)
        status = tft_sync(s->session, ids, n);
    free(ids);
    s->sampler = (struct tft_sampler){
        .temperature = temperature, .top_p = top_p, .min_p = min_p, .seed = seed};
    s->text = (struct tft_text){.started = len > 0};
    return failed(s, status);
}

/* Appends a token that is chosen from the logits, and makes its text: story_piece, of as many bytes
   as this returns. -1: the text has ended, or the session is full, and story_piece is empty. -2:
   an error. */
EMSCRIPTEN_KEEPALIVE int story_next(struct story *s)
{
    int32_t id = tft_sample(&s->sampler, s->session);
    if (id < 0 || tft_token_ends(s->model, id) ||
        tft_pos(s->session) == tft_capacity(s->session))
        return -1;
    size_t n = tft_text_push(&s->text, s->model, id, s->piece);
    return failed(s, tft_decode(s->session, id)) == TFT_OK ? (int)n : -2;
}

EMSCRIPTEN_KEEPALIVE const char *story_piece(const struct story *s)
{
    return s->piece;
}

EMSCRIPTEN_KEEPALIVE size_t story_tokens(const struct story *s)
{
    return tft_pos(s->session);
}

/* [story_words]: of the token that comes next. NULL: there are none. */
EMSCRIPTEN_KEEPALIVE const float *story_logits(const struct story *s)
{
    return tft_logits(s->session, 0);
}

EMSCRIPTEN_KEEPALIVE uint32_t story_words(const struct story *s)
{
    struct tft_model_info info = {.size = sizeof info};
    tft_model_describe(s->model, &info);
    return info.n_vocab;
}

#include "embedder.h"

#include <stdlib.h>
#include <string.h>

#include "engine_state.h"

enum { PACK_TEXTS = 64, PACK_TOKENS = 2048 }; /* of a pass, at most */

struct packed {
    struct tft_embedder *e;
    struct tft_embedder_info info;
    struct tft_text_tokens texts[PACK_TEXTS];
    struct job *of[PACK_TEXTS]; /* the job of each text, and its number there */
    size_t number[PACK_TEXTS];
    float results[]; /* [PACK_TEXTS, info.width] */
};

bool embedder_open(struct embedder *m, const struct tft_model *model, enum tft_pooling pooling)
{
    struct tft_model_info info = {.size = sizeof info};
    tft_model_describe(model, &info);
    *m = (struct embedder){.pooling = pooling, .n_embd = info.n_embd};
    m->sum = calloc(info.n_embd, sizeof *m->sum);
    m->vector = calloc(info.n_embd, sizeof *m->vector);
    return m->sum && m->vector;
}

void embedder_close(struct embedder *m)
{
    if (m->packed)
        tft_embedder_close(m->packed->e);
    free(m->packed);
    tft_session_close(m->slot.s);
    free(m->sum);
    free(m->vector);
}

/* ---- jobs */

/* The turn of the last text of this client; 0: none yet. */
static uint64_t last_turn(const struct embedder *m, uint64_t client)
{
    uint64_t turn = m->client == client ? m->turn : 0;
    for (const struct job *j = m->jobs; j; j = j->next)
        if (j->client == client && j->texts->turn > turn)
            turn = j->texts->turn;
    return turn;
}

/* The next job with texts: the oldest job of the client that has waited longest. */
static struct job *next_job(const struct embedder *m)
{
    struct job *best = NULL;
    uint64_t earliest = 0;
    for (struct job *j = m->jobs; j; j = j->next) {
        uint64_t turn = last_turn(m, j->client);
        if (j->texts->at == j->texts->n)
            continue;
        if (!best || turn < earliest ||
            (turn == earliest && j->client == best->client && j->texts->turn < best->texts->turn)) {
            best = j;
            earliest = turn;
        }
    }
    return best;
}

static void release(struct engine *e)
{
    struct embedder *m = &e->embedder;
    pthread_mutex_lock(&e->lock);
    m->slot.job->slot = NULL;
    m->slot.job = NULL;
    pthread_mutex_unlock(&e->lock);
}

/* Ends a job by engine_end with `finish`, or, if `finish` is NULL, by engine_fail with `why`. */
static void end(struct engine *e, struct job *j, const char *finish, const char *why)
{
    struct embedder *m = &e->embedder;
    struct job **at = &m->jobs;
    if (m->slot.job == j)
        release(e);
    pthread_mutex_lock(&e->lock);
    while (*at != j)
        at = &(*at)->next;
    *at = j->next;
    j->next = NULL;
    m->n_jobs--;
    pthread_mutex_unlock(&e->lock);
    if (finish)
        engine_end(e, j, finish);
    else
        engine_fail(e, j, why);
}

void embedder_end_cancelled(struct engine *e)
{
    pthread_mutex_lock(&e->lock);
    for (struct job *j = e->embedder.jobs, *next; j; j = next) {
        next = j->next;
        if (!atomic_load(&j->cancelled))
            continue;
        pthread_mutex_unlock(&e->lock);
        end(e, j, "cancelled", NULL);
        pthread_mutex_lock(&e->lock);
        next = e->embedder.jobs; /* jobs may have come meanwhile */
    }
    pthread_mutex_unlock(&e->lock);
}

/* ---- texts */

/* Gives the embedder a session with the adapters. */
static bool open_session(struct engine *e, const struct loras *l)
{
    struct embedder *m = &e->embedder;
    struct tft_lora_use use[CLI_MOST_TEXTS];
    struct tft_session_opts o = {.n_batch = N_BATCH,
                                 .no_logits = true,
                                 .count_ends = true,
                                 .batch = e->batch,
                                 .capacity = e->o.ctx,
                                 .kv = e->o.kv};
    o.n_hidden = m->pooling == TFT_POOLING_LAST ? 1 : N_BATCH;
    if (m->slot.s && loras_same(&m->slot.loras, l))
        return true;
    engine_close_slot(e, &m->slot);
    loras_put(l, use, &o);
    m->slot.loras = *l;
    return cli_open_session(&m->slot.s, e->o.m, &o) == CLI_OK;
}

bool embedder_begin(struct engine *e)
{
    struct embedder *m = &e->embedder;
    struct slot *s = &m->slot;
    struct job *j;
    if (m->packed)
        return m->jobs;
    while (!s->job && (j = next_job(m)) != NULL) {
        pthread_mutex_unlock(&e->lock);
        bool opened = open_session(e, &j->loras);
        if (opened)
            tft_rewind(s->s, 0);
        else
            end(e, j, NULL, "there is no memory for a session");
        pthread_mutex_lock(&e->lock);
        if (!opened)
            continue;
        const struct text *t = &j->texts->text[j->texts->at];
        s->feed = t->ids;
        s->n_feed = t->n;
        s->in_prompt = true;
        s->used = e->counts.passes;
        s->job = j;
        j->slot = s;
        j->texts->turn = ++m->turn;
        m->client = j->client;
        j->start = j->start ? j->start : cli_ns();
        memset(m->sum, 0, m->n_embd * sizeof *m->sum);
    }
    return s->job;
}

/* Adds the vectors of the last n tokens, in their order: the sum does not depend on the chunks. */
static void add(struct embedder *m, size_t n)
{
    for (size_t back = n; back-- > 0;) {
        const float *h = tft_hidden(m->slot.s, back);
        for (uint32_t i = 0; i < m->n_embd; i++)
            m->sum[i] += (double)h[i];
    }
}

static void end_text(struct engine *e)
{
    struct embedder *m = &e->embedder;
    struct job *j = m->slot.job;
    struct texts *all = j->texts;
    size_t n = all->text[all->at].n, bytes = m->n_embd * sizeof *m->vector;
    const float *last = tft_hidden(m->slot.s, 0);
    for (uint32_t i = 0; i < m->n_embd; i++)
        m->vector[i] = m->pooling == TFT_POOLING_LAST ? last[i] : (float)(m->sum[i] / (double)n);
    pthread_mutex_lock(&e->lock);
    e->counts.prompt_tokens += n;
    pthread_mutex_unlock(&e->lock);
    j->prompt_seconds = (double)(cli_ns() - j->start) / 1e9;
    if (!engine_item(e, j, ITEM_VECTOR, all->at, (const char *)m->vector, bytes))
        end(e, j, NULL, "out of memory");
    else if (++all->at == all->n)
        end(e, j, "stop", NULL);
    else
        release(e);
}

void embedder_go_on(struct engine *e, const struct step *t)
{
    struct embedder *m = &e->embedder;
    struct slot *s = &m->slot;
    s->used = e->counts.passes;
    if (t->status == TFT_ERR_CANCELLED) /* nothing was fed; the cancel may be of the job before */
        return;
    if (t->status != TFT_OK) {
        end(e, s->job, NULL, tft_session_error(s->s)->msg);
        return;
    }
    if (m->pooling == TFT_POOLING_MEAN)
        add(m, t->n);
    s->feed += t->n;
    s->n_feed -= t->n;
    if (!s->n_feed)
        end_text(e);
}

/* ---- whole texts */

int embedder_pack(struct embedder *m, const struct engine_options *of, size_t *capacity)
{
    struct tft_error err;
    struct tft_embedder *e;
    struct tft_embedder_info info = {.size = sizeof info};
    bool ranks = m->pooling == TFT_POOLING_RANK;
    struct tft_embedder_opts o = {.size = sizeof o,
                                  .pooling = m->pooling == TFT_POOLING_OTHER
                                                 ? TFT_POOLING_NONE
                                                 : m->pooling, /* the error says what is wrong */
                                  .raw = !ranks, /* the request says how long a vector is */
                                  .max_text = of->ctx ? of->ctx : cli_session_options.ctx,
                                  .n_threads = (int)cli_model_options.threads};
    if (tft_embedder_open(&e, of->m, &o, &err) != TFT_OK)
        return cli_fail("%s", err.msg);
    tft_embedder_describe(e, &info);
    m->packed = calloc(1, sizeof *m->packed + PACK_TEXTS * (size_t)info.width * sizeof(float));
    if (!m->packed) {
        tft_embedder_close(e);
        return cli_fail("out of memory");
    }
    m->packed->e = e;
    m->packed->info = info;
    m->n_embd = ranks ? 1 : info.width;
    *capacity = info.max_text;
    return CLI_OK;
}

/* The most tokens of a pass of several texts. */
static size_t most_tokens(const struct engine *e)
{
    size_t most = e->o.baton ? pace_tokens(&e->pace) : PACK_TOKENS;
    return most < PACK_TOKENS ? most : PACK_TOKENS;
}

/* Takes texts for a pass, at least one. Sets *tokens. Call with the lock held. */
static size_t pack(struct engine *e, size_t *tokens)
{
    struct embedder *m = &e->embedder;
    struct packed *p = m->packed;
    size_t n = 0, most = most_tokens(e);
    struct job *j;
    *tokens = 0;
    while (n < PACK_TEXTS && (j = next_job(m)) != NULL) {
        const struct text *t = &j->texts->text[j->texts->at];
        if (n && *tokens + t->n > most)
            break;
        p->texts[n] = (struct tft_text_tokens){.ids = t->ids, .types = t->types, .n = t->n};
        p->of[n] = j;
        p->number[n++] = j->texts->at++;
        *tokens += t->n;
        j->texts->turn = ++m->turn;
        m->client = j->client;
        j->start = j->start ? j->start : cli_ns();
    }
    e->counts.prompt_tokens += *tokens;
    e->counts.passes += n > 0;
    return n;
}

/* Ends a job after a pass that had texts of it, if it has no further ones. */
static void end_packed(struct engine *e, struct job *j, enum tft_status status)
{
    j->prompt_seconds = (double)(cli_ns() - j->start) / 1e9;
    if (status != TFT_OK)
        end(e, j, NULL, tft_embedder_error(e->embedder.packed->e)->msg);
    else if (j->texts->lost)
        end(e, j, NULL, "out of memory");
    else if (j->texts->at == j->texts->n)
        end(e, j, "stop", NULL);
}

void embedder_pass(struct engine *e)
{
    struct embedder *m = &e->embedder;
    struct packed *p = m->packed;
    pthread_mutex_lock(&e->lock);
    size_t tokens, n = pack(e, &tokens), bytes = m->n_embd * sizeof *p->results;
    pthread_mutex_unlock(&e->lock);
    uint64_t start = cli_ns();
    enum tft_status status = m->pooling == TFT_POOLING_RANK
                                 ? tft_rerank(p->e, p->texts, n, p->results)
                                 : tft_embed(p->e, p->texts, n, p->results);
    pace_count(&e->pace, tokens, cli_ns() - start);
    for (size_t i = 0; i < n && status == TFT_OK; i++)
        p->of[i]->texts->lost |= !engine_item(e, p->of[i], ITEM_VECTOR, p->number[i],
                                              (const char *)(p->results + i * m->n_embd), bytes);
    for (size_t i = 0, k; i < n; i++) {
        for (k = i + 1; k < n && p->of[k] != p->of[i];)
            k++;
        if (k == n) /* the last text of its job in this pass */
            end_packed(e, p->of[i], status);
    }
}

#define _POSIX_C_SOURCE 200809L
#include "engine.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "answer.h"
#include "embedder.h"
#include "engine_state.h"
#include "port/thread.h"
#include "shape.h"
#include "tools/cli/power.h"
#include "tools/cli/verbose.h"

/* ---- items */

static void add(struct engine *e, struct item *item)
{
    pthread_mutex_lock(&e->lock);
    bool wake = !e->items;
    *e->last_item = item;
    e->last_item = &item->next;
    pthread_mutex_unlock(&e->lock);
    if (wake)
        e->o.wake(e->o.user);
}

bool engine_item(void *user, struct job *j, enum item_kind kind, size_t index, const char *p,
                 size_t n)
{
    struct item *item = malloc(sizeof *item + n + 1);
    if (!item)
        return false;
    *item = (struct item){.job = j, .kind = kind, .index = index, .n = n};
    if (n)
        memcpy(item->p, p, n);
    item->p[n] = 0;
    add(user, item);
    return true;
}

void engine_take(struct engine *e)
{
    pthread_mutex_lock(&e->lock);
    struct item *item = e->items;
    struct chore *c = e->done;
    e->done = NULL;
    e->items = NULL;
    e->last_item = &e->items;
    pthread_mutex_unlock(&e->lock);
    for (struct item *next; item; item = next) {
        next = item->next;
        e->n_open -= item->kind == ITEM_END;
        item->job->take(item->job->user, item);
        free(item);
    }
    for (struct chore *next; c; c = next) {
        next = c->next;
        e->n_open--;
        c->done(c);
    }
}

/* ---- the end of a job */

void engine_end(struct engine *e, struct job *j, const char *finish)
{
    uint64_t now = cli_ns();
    struct slot *s = j->slot;
    if (s && !s->in_prompt)
        j->seconds = (double)(now - j->start) / 1e9;
    j->finish = finish;
    pthread_mutex_lock(&e->lock);
    if (s) {
        s->job = NULL;
        j->slot = NULL;
        e->counts.running--;
        e->counts.tokens += j->n_tokens;
        e->counts.seconds += j->seconds;
        if (tft_pos(s->s) > e->counts.most_tokens)
            e->counts.most_tokens = tft_pos(s->s);
    }
    pthread_mutex_unlock(&e->lock);
    struct item *end = j->end;
    j->end = NULL;
    add(e, end); /* the clients' thread may free the job now */
}

void engine_fail(struct engine *e, struct job *j, const char *why)
{
    snprintf(j->error, sizeof j->error, "%s", why);
    engine_end(e, j, NULL);
}

void engine_complete(struct engine *e, struct job *j, const char *finish)
{
    if (!answer_end(j))
        engine_fail(e, j, "out of memory");
    else
        engine_end(e, j, strcmp(finish, "stop") == 0 && j->answer.called ? "tool_calls" : finish);
}

/* ---- the beginning of a job */

void engine_close_slot(struct engine *e, struct slot *s)
{
    struct tft_ends ends;
    if (s->s && tft_session_ends(s->s, &ends)) {
        e->closed.numbers += ends.numbers;
        e->closed.at_ends += ends.at_ends;
    }
    tft_session_close(s->s);
    tft_session_close(s->draft);
    s->s = s->draft = NULL;
}

/* Opens a session with the adapters in a slot that has none. */
static bool open_slot(struct engine *e, struct slot *s, const struct loras *l)
{
    struct tft_lora_use use[CLI_MOST_TEXTS];
    struct tft_session_opts o = {
        .n_batch = N_BATCH,
        .lookup = cli_session_options.lookup,
        .count_ends = true,
        .batch = e->batch,
        .capacity = e->o.ctx,
        .kv = e->o.kv,
    };
    loras_put(l, use, &o);
    bool opened = cli_open_session(&s->s, e->o.m, &o) == CLI_OK;
    s->draft = o.draft;
    s->loras = *l;
    if (opened)
        e->session_bytes = tft_session_bytes(e->o.m, &o, NULL);
    s->adapted = opened ? store_adapted(e->store, s->s, l) : 0;
    return opened;
}

/* Saves the slot's session before the job overwrites it, unless other slots have most of its
   tokens. */
static void keep(struct engine *e, struct slot *s, const struct job *j)
{
    size_t have = slot_common(s, &j->loras, j->ids, j->n_ids);
    for (const struct slot *o = e->slots; o < e->slots + e->o.n_slots; o++) {
        size_t common = o == s ? 0 : slot_common(o, &s->loras, tft_tokens(s->s), tft_pos(s->s));
        have = common > have ? common : have;
    }
    store_keep(e->store, s->s, s->adapted, have);
}

/* Gives the slot a session with the job's adapters. */
static bool fit_slot(struct engine *e, struct slot *s, const struct job *j)
{
    if (s->s && loras_same(&s->loras, &j->loras))
        return true;
    if (s->s)
        keep(e, s, j);
    engine_close_slot(e, s);
    return open_slot(e, s, &j->loras);
}

/* Gives the slot the session with most of the prompt: its own, a stored one, or a copy of another
   slot's, which may be working. After an error, the prompt is computed. */
static enum store_found find_session(struct engine *e, const struct job *j, struct slot *s)
{
    const struct slot *from = slot_source(e->slots, e->o.n_slots, s, j);
    const struct trail_prompt prompt = {j->ids, j->n_ids, s->adapted};
    size_t have = slot_common(from ? from : s, &j->loras, j->ids, j->n_ids);
    enum store_found found = store_find(e->store, &prompt, have);
    keep(e, s, j);
    if (found != STORE_NOTHING && store_load(e->store, s->s))
        return found;
    if (from)
        tft_session_copy(s->s, from->s, NULL);
    return STORE_NOTHING;
}

/* With --verbose, compares the prompt with the slot that has most of it: after a change near the
   beginning, a prompt gets a fresh slot. */
static void say_cached(const struct engine *e, const struct job *j, const struct slot *s,
                       size_t cached)
{
    const struct slot *best = s;
    if (!cli_model_options.verbose)
        return;
    for (const struct slot *o = e->slots; o < e->slots + e->o.n_slots; o++)
        if (slot_common(o, &j->loras, j->ids, j->n_ids) >
            slot_common(best, &j->loras, j->ids, j->n_ids))
            best = o;
    verbose_prompt(e->o.m, j->ids, j->n_ids, best->s, cached, false);
}

static void begin(struct engine *e, struct job *j, struct slot *s)
{
    enum store_found found = find_session(e, j, s);
    size_t common = j->of_prompt ? 0 : slot_common(s, &j->loras, j->ids, j->n_ids);
    say_cached(e, j, s, common);
    j->start = cli_ns();
    j->deadline = j->time ? j->start + j->time : 0;
    j->n_cached = common;
    s->feed = j->ids + common;
    s->n_feed = j->n_ids - common;
    s->in_prompt = true;
    s->empty_prompt = !j->n_ids;
    s->used = e->counts.passes;
    pthread_mutex_lock(&e->lock);
    s->job = j;
    j->slot = s;
    e->counts.running++;
    e->counts.cached_tokens += common;
    e->counts.hits[found] += common > 0;
    pthread_mutex_unlock(&e->lock);
    if (tft_rewind(s->s, common) != TFT_OK)
        engine_fail(e, j, tft_session_error(s->s)->msg);
    else if (!answer_begin(j, engine_item, e))
        engine_fail(e, j, "out of memory");
}

static size_t running_of(const struct engine *e, uint64_t client)
{
    size_t n = 0;
    for (size_t i = 0; i < e->o.n_slots; i++)
        n += e->slots[i].job && e->slots[i].job->client == client;
    return n;
}

static struct job *take(struct engine *e, struct job **at)
{
    struct job *j = *at;
    *at = j->next;
    if (!j->next)
        e->last = at;
    j->next = NULL;
    e->counts.waiting--;
    return j;
}

/* The next job: the oldest job of the clients with the fewest jobs in slots; or any cancelled job.
   NULL: no job, or no free slot. Call with the lock held. */
static struct job *take_next(struct engine *e)
{
    struct job **best = NULL;
    size_t fewest = 0;
    for (struct job **at = &e->waiting; *at; at = &(*at)->next) {
        if (atomic_load(&(*at)->cancelled))
            return take(e, at);
        size_t n = running_of(e, (*at)->client);
        if (!best || n < fewest) {
            best = at;
            fewest = n;
        }
    }
    return best && e->counts.running + e->n_off < e->o.n_slots ? take(e, best) : NULL;
}

/* Without memory for another session, the number of slots shrinks permanently, and the job
   continues to wait. The last slot stays, and the job fails. */
static void have_fewer_slots(struct engine *e, struct slot *s, struct job *j)
{
    if (e->n_off + 1 == e->o.n_slots) {
        engine_fail(e, j, "there is no memory for a session");
        return;
    }
    pthread_mutex_lock(&e->lock);
    s->off = true;
    e->n_off++;
    j->next = e->waiting;
    if (!e->waiting)
        e->last = &j->next;
    e->waiting = j;
    e->counts.waiting++;
    pthread_mutex_unlock(&e->lock);
}

/* Gives the free slots to waiting jobs. Call with the lock held; it is released for a while. */
static void begin_jobs(struct engine *e)
{
    struct job *j;
    while ((j = take_next(e)) != NULL) {
        pthread_mutex_unlock(&e->lock);
        if (atomic_load(&j->cancelled)) {
            engine_end(e, j, "cancelled");
        } else {
            struct slot *s = slot_choose(e->slots, e->o.n_slots, j);
            if (fit_slot(e, s, j))
                begin(e, j, s);
            else
                have_fewer_slots(e, s, j);
        }
        pthread_mutex_lock(&e->lock);
    }
}

/* ---- chores */

/* A session to restore has the adapters of the chore; another one stays as it is. */
static bool open_for_chore(struct engine *e, struct slot *s, const struct chore *c)
{
    bool restores = c->kind == CHORE_RESTORE;
    if (s->s && restores)
        store_keep(e->store, s->s, s->adapted, 0);
    if (s->s && (!restores || loras_same(&s->loras, &c->loras)))
        return true;
    engine_close_slot(e, s);
    return open_slot(e, s, &c->loras);
}

static void do_chore(struct engine *e, struct chore *c)
{
    struct slot *s = c->slot < e->o.n_slots ? &e->slots[c->slot] : NULL;
    bool open = c->kind == CHORE_LIST || (s && open_for_chore(e, s, c));
    if (open)
        chore_do(c, e->slots, e->o.n_slots);
    else
        c->status = s ? TFT_ERR_NOMEM : TFT_ERR_ARG; /* an encoder has no slots */
}

/* Does the chores of free slots. Call with the lock held; it is released for a while. */
static void do_chores(struct engine *e)
{
    for (struct chore **at = &e->chores; *at;) {
        struct chore *c = *at;
        if (!chore_is_ready(c, e->slots, e->o.n_slots)) {
            at = &c->next;
            continue;
        }
        *at = c->next;
        pthread_mutex_unlock(&e->lock);
        do_chore(e, c);
        pthread_mutex_lock(&e->lock);
        c->next = e->done;
        e->done = c;
        e->o.wake(e->o.user);
        at = &e->chores; /* chores may have come meanwhile */
    }
}

void engine_do(struct engine *e, struct chore *c)
{
    pthread_mutex_lock(&e->lock);
    struct chore **at = &e->chores;
    while (*at)
        at = &(*at)->next;
    *at = c;
    e->n_open++;
    pthread_cond_signal(&e->work);
    pthread_mutex_unlock(&e->lock);
}

/* Call with the lock held. */
static void cancel_all(struct engine *e)
{
    for (size_t i = 0; i < e->o.n_slots; i++)
        if (e->slots[i].job)
            atomic_store(&e->slots[i].job->cancelled, true);
    for (struct job *j = e->waiting; j; j = j->next)
        atomic_store(&j->cancelled, true);
    for (struct job *j = e->embedder.jobs; j; j = j->next)
        atomic_store(&j->cancelled, true);
}

/* The pause of --power after a pass: other models wait, too. The end of the engine ends it. */
static void rest(struct engine *e, uint64_t start)
{
    uint64_t due = power_due(start), from = cli_ns();
    struct timespec until;
    if (!due)
        return;
    clock_gettime(CLOCK_REALTIME, &until);
    due += (uint64_t)until.tv_nsec;
    until.tv_sec += (time_t)(due / 1000000000);
    until.tv_nsec = (long)(due % 1000000000);
    pthread_mutex_lock(&e->lock);
    while (!e->closing && pthread_cond_timedwait(&e->work, &e->lock, &until) == 0)
        ;
    pthread_mutex_unlock(&e->lock);
    power_waited(cli_ns() - from);
}

static void take_turn(struct engine *e)
{
    baton_take(e->o.baton, &e->turn);
    uint64_t start = cli_ns();
    engine_pass(e);
    rest(e, start);
    baton_count(e->o.baton, &e->turn, cli_ns() - start);
}

static void *run(void *arg)
{
    struct engine *e = arg;
    pthread_mutex_lock(&e->lock);
    for (;;) {
        if (e->closing)
            cancel_all(e);
        do_chores(e);
        begin_jobs(e);
        if (embedder_begin(e) || e->counts.running) {
            pthread_mutex_unlock(&e->lock);
            take_turn(e);
            pthread_mutex_lock(&e->lock);
            continue;
        }
        baton_give(e->o.baton, &e->turn);
        if (e->closing)
            break;
        pthread_cond_wait(&e->work, &e->lock);
    }
    pthread_mutex_unlock(&e->lock);
    return NULL;
}

/* ---- the shaper: a thread that compiles the forms of jobs, before they wait for a slot */

/* Takes the first job without a form; NULL: the engine is closing. Call with the lock held. */
static struct job *take_shapeless(struct engine *e)
{
    while (!e->shaping && !e->closing)
        pthread_cond_wait(&e->shape, &e->lock);
    struct job *j = e->shaping;
    if (!j)
        return NULL;
    e->shaping = j->next;
    if (!e->shaping)
        e->last_shaping = &e->shaping;
    j->next = NULL;
    return j;
}

/* False: j->error is the reason. */
static bool begin_shape(struct engine *e, struct job *j)
{
    struct tft_error err;
    if (!e->lexicon && tft_lexicon_open(&e->lexicon, e->o.m, &err) != TFT_OK) {
        snprintf(j->error, sizeof j->error, "%s", err.msg);
        return false;
    }
    enum tft_status status = shape_give(j->shape, &j->form, e->lexicon, j->error, sizeof j->error);
    j->refused = status != TFT_OK && status != TFT_ERR_NOMEM;
    if (status != TFT_OK)
        return false;
    if (form_begin(&j->form, j->ids, j->n_ids, j->thinks) != CLI_OK) {
        snprintf(j->error, sizeof j->error, "out of memory");
        return false;
    }
    if (j->thinks_on && j->form.think_end >= 0)
        j->form.phase = FORM_THINKING;
    return true;
}

static void *shape_jobs(void *arg)
{
    struct engine *e = arg;
    struct job *j;
    pthread_mutex_lock(&e->lock);
    while ((j = take_shapeless(e)) != NULL) {
        bool cancelled = e->closing || atomic_load(&j->cancelled);
        pthread_mutex_unlock(&e->lock);
        bool good = !cancelled && begin_shape(e, j);
        pthread_mutex_lock(&e->lock);
        if (good && !e->closing) {
            *e->last = j;
            e->last = &j->next;
            pthread_cond_signal(&e->work);
            continue;
        }
        e->counts.waiting--;
        pthread_mutex_unlock(&e->lock);
        engine_end(e, j, good || cancelled ? "cancelled" : NULL);
        pthread_mutex_lock(&e->lock);
    }
    pthread_mutex_unlock(&e->lock);
    return NULL;
}

/* ---- the clients' thread */

bool engine_put(struct engine *e, struct job **jobs, size_t n)
{
    pthread_mutex_lock(&e->lock);
    size_t room = e->o.n_queue + e->o.n_slots - e->n_off - e->counts.running;
    bool fits = e->counts.waiting + n <= room;
    for (size_t i = 0; i < n && fits; i++) {
        struct job ***last = jobs[i]->shape ? &e->last_shaping : &e->last;
        **last = jobs[i];
        *last = &jobs[i]->next;
        e->counts.waiting++;
    }
    e->n_open += fits ? n : 0;
    pthread_cond_signal(&e->work);
    pthread_cond_signal(&e->shape);
    pthread_mutex_unlock(&e->lock);
    return fits;
}

bool engine_put_texts(struct engine *e, struct job *j)
{
    struct job **last = &e->embedder.jobs;
    pthread_mutex_lock(&e->lock);
    bool fits = e->embedder.n_jobs <= e->o.n_queue; /* one is in progress */
    while (*last)
        last = &(*last)->next;
    if (fits) {
        *last = j;
        e->n_open++;
        e->embedder.n_jobs++;
        pthread_cond_signal(&e->work);
    }
    pthread_mutex_unlock(&e->lock);
    return fits;
}

void engine_cancel(struct engine *e, struct job *j)
{
    pthread_mutex_lock(&e->lock);
    atomic_store(&j->cancelled, true);
    if (j->slot)
        tft_cancel(j->slot->s);
    pthread_cond_signal(&e->work);
    pthread_mutex_unlock(&e->lock);
}

size_t engine_capacity(const struct engine *e) { return e->capacity; }

size_t engine_width(const struct engine *e) { return e->embedder.n_embd; }

uint64_t engine_bytes(const struct engine *e)
{
    return ((uint64_t)e->o.n_slots + 1) * e->session_bytes;
}

bool engine_is_idle(const struct engine *e) { return !e->n_open; }

struct engine_counts engine_counts(struct engine *e)
{
    pthread_mutex_lock(&e->lock);
    struct engine_counts c = e->counts;
    c.running += e->embedder.slot.job != NULL;
    c.waiting += e->embedder.n_jobs - (e->embedder.slot.job != NULL);
    c.saved += store_counts(e->store).n_saved;
    pthread_mutex_unlock(&e->lock);
    return c;
}

struct store_counts engine_stored(struct engine *e) { return store_counts(e->store); }

static bool start(struct engine *e)
{
    e->started = tft_port_start(&e->thread, 0, run, e) == 0;
    e->shapes = tft_port_start(&e->shaper, 0, shape_jobs, e) == 0;
    return e->started && e->shapes;
}

int engine_open(struct engine **out, const struct engine_options *o)
{
    struct engine *e = *out = calloc(1, sizeof *e);
    if (!e)
        return cli_fail("out of memory");
    e->o = *o;
    e->counts = o->past;
    e->counts.running = e->counts.waiting = 0;
    e->counts.calibrated_ends = tft_calibrated_ends(o->m);
    e->closed = o->past.ends;
    e->last = &e->waiting;
    e->last_shaping = &e->shaping;
    e->last_item = &e->items;
    pthread_mutex_init(&e->lock, NULL);
    pthread_cond_init(&e->work, NULL);
    pthread_cond_init(&e->shape, NULL);
    e->slots = calloc(o->n_slots, sizeof *e->slots);
    e->steps = calloc(o->n_slots + 1, sizeof *e->steps);
    e->feeds = calloc(o->n_slots + 1, sizeof *e->feeds);
    if (!e->slots || !e->steps || !e->feeds || !embedder_open(&e->embedder, o->m, o->pooling))
        return cli_fail("out of memory");
    if (pooling_is_all(o->m, o->pooling)) { /* no slots, and no sessions in them */
        e->o.n_slots = 0;
        int status = embedder_pack(&e->embedder, o, &e->capacity);
        return status != CLI_OK || start(e) ? status : cli_fail("a thread cannot be started");
    }
    struct tft_error err;
    struct tft_batch_opts b = {.size = sizeof b,
                               .n_sessions = o->n_slots + 1,
                               .n_tokens = N_BATCH,
                               .n_threads = (int)cli_model_options.threads};
    if (tft_batch_open(&e->batch, o->m, &b, &err) != TFT_OK)
        return cli_fail("%s", err.msg);
    if (!open_slot(e, &e->slots[0], &(struct loras){0}))
        return CLI_FAILED;
    e->capacity = tft_capacity(e->slots[0].s);
    if (store_open(&e->store, &o->store, e->slots[0].s, o->m) != CLI_OK)
        return CLI_FAILED;
    return start(e) ? CLI_OK : cli_fail("a thread cannot be started");
}

void engine_close(struct engine *e)
{
    if (!e)
        return;
    pthread_mutex_lock(&e->lock);
    e->closing = true;
    pthread_cond_signal(&e->work);
    pthread_cond_signal(&e->shape);
    pthread_mutex_unlock(&e->lock);
    if (e->shapes)
        pthread_join(e->shaper, NULL);
    if (e->started)
        pthread_join(e->thread, NULL);
    engine_take(e);
    for (size_t i = 0; e->slots && i < e->o.n_slots; i++) {
        if (e->slots[i].s)
            store_keep_last(e->store, e->slots[i].s, e->slots[i].adapted);
        tft_session_close(e->slots[i].s);
        tft_session_close(e->slots[i].draft);
    }
    embedder_close(&e->embedder);
    store_close(e->store);
    tft_batch_close(e->batch);
    pthread_cond_destroy(&e->work);
    pthread_cond_destroy(&e->shape);
    tft_lexicon_close(e->lexicon);
    pthread_mutex_destroy(&e->lock);
    free(e->feeds);
    free(e->steps);
    free(e->slots);
    free(e);
}

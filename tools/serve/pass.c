/* A pass: its tokens for each slot, and its results. */
#include <stdlib.h>
#include <string.h>

#include "answer.h"
#include "embedder.h"
#include "engine_state.h"
#include "tools/cli/power.h"

enum {
    CHUNK = 64,        /* tokens of a prompt in a pass, if other slots wait */
    CHUNK_ALONE = 256, /* if none does */
    CHUNK_COOL = 32,   /* with --power, for short pauses */
};

/* Feeds the slots. A single slot is fed by itself: it can be cancelled between layers. */
static void feed_all(struct engine *e, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct step *t = &e->steps[i];
        t->before = tft_pos(t->slot->s);
        e->feeds[i] = (struct tft_step){.session = t->slot->s,
                                        .tokens = t->slot->empty_prompt ? NULL : t->slot->feed,
                                        .n = t->n};
    }
    if (n == 1)
        e->feeds[0].status = tft_prefill(e->feeds[0].session, e->feeds[0].tokens, e->feeds[0].n);
    else if (n)
        tft_step(e->batch, e->feeds, n);
    for (size_t i = 0; i < n; i++)
        e->steps[i].status = e->feeds[i].status;
}

/* The most tokens of the prompt in a pass. others: slots and texts beside it */
static size_t chunk_of(const struct engine *e, const struct slot *prompt, size_t others)
{
    size_t most = prompt->job->of_prompt ? 1
                  : power_is_shared()    ? CHUNK_COOL
                  : others               ? CHUNK
                                         : CHUNK_ALONE,
           timed = e->o.baton ? pace_tokens(&e->pace) : most;
    return timed < most ? timed : most;
}

/* Lists the steps of the next pass: one of each slot that generates, and a chunk of one prompt or
   of the embedder's text, the one that has waited longest. */
static size_t gather(struct engine *e)
{
    size_t n = 0;
    struct slot *prompt = e->embedder.slot.job ? &e->embedder.slot : NULL;
    for (struct slot *s = e->slots; s < e->slots + e->o.n_slots; s++) {
        if (s->job && !s->in_prompt)
            e->steps[n++] = (struct step){.slot = s, .n = s->n_feed};
        else if (s->job && (!prompt || s->used < prompt->used))
            prompt = s;
    }
    if (prompt) {
        size_t others = e->counts.running + (e->embedder.slot.job != NULL) - 1,
               most = chunk_of(e, prompt, others);
        e->steps[n++] =
            (struct step){.slot = prompt, .n = prompt->n_feed < most ? prompt->n_feed : most};
    }
    return n;
}

/* After a pass of n steps that took so long. A prompt is the last step. */
static void count_time(struct engine *e, size_t n, uint64_t ns)
{
    size_t tokens = 0;
    if (!n || e->steps[n - 1].n < PACE_LEAST)
        return;
    for (size_t i = 0; i < n; i++)
        tokens += e->steps[i].n;
    pace_count(&e->pace, tokens, ns);
}

static void put_choices(struct engine *e, struct job *j, struct slot *s, int32_t id)
{
    struct tft_choice all[1 + JOB_LOGPROBS];
    all[0] = (struct tft_choice){id, tft_logprob(s->s, NULL, id)};
    size_t n = tft_likeliest(s->s, NULL, all + 1, (size_t)j->logprobs);
    if (!engine_item(e, j, ITEM_TOKEN, n, (const char *)all, (1 + n) * sizeof *all))
        j->answer.failed = true;
}

/* Ends the answer by a bound that is not the request's. */
static void end_by(struct engine *e, struct job *j, const char *what)
{
    j->ended_by = what;
    engine_complete(e, j, "length");
}

/* The answer has all of its tokens. */
static void end_at_length(struct engine *e, struct job *j)
{
    end_by(e, j, j->is_limit ? "limit" : NULL);
}

/* Chooses the session's next token, and puts its text. */
static void choose(struct engine *e, struct slot *s)
{
    struct job *j = s->job;
    size_t n;
    if (!j->most) {
        end_at_length(e, j);
        return;
    }
    j->form.logits = bias_apply(&j->bias, s->s);
    int more = form_next(&j->form, &j->sampler, s->s, s->next, &n);
    if (more < 0) {
        engine_fail(e, j, form_error(s->s));
        return;
    }
    for (size_t i = 0; i < n; i++) {
        if (j->logprobs >= 0)
            put_choices(e, j, s, s->next[i]);
        bias_count(&j->bias, s->next[i]);
        j->n_tokens++;
        if (!answer_token(j, s->next[i])) {
            if (j->answer.failed)
                engine_fail(e, j, "out of memory");
            else
                engine_complete(e, j, "stop");
            return;
        }
        if (j->stop_loops && loops_take(&j->loops, s->next[i])) {
            end_by(e, j, "loop");
            return;
        }
        if ((int64_t)j->n_tokens == j->most) {
            end_at_length(e, j);
            return;
        }
    }
    if (!more || form_is_done(&j->form))
        engine_complete(e, j, "stop");
    s->feed = s->next;
    s->n_feed = n;
}

/* After a chunk of the prompt. */
static void read_on(struct engine *e, struct slot *s)
{
    struct job *j = s->job;
    if (j->progress)
        engine_item(e, j, ITEM_PROMPT, tft_pos(s->s), NULL, 0);
    if (s->n_feed) {
        if (j->of_prompt)
            put_choices(e, j, s, *s->feed);
        return;
    }
    uint64_t now = cli_ns();
    tft_prompt_end(s->s);
    s->in_prompt = s->empty_prompt = false;
    j->prompt_seconds = (double)(now - j->start) / 1e9;
    j->start = now;
    pthread_mutex_lock(&e->lock);
    e->counts.prompt_tokens += j->n_ids - j->n_cached;
    e->counts.prompt_seconds += j->prompt_seconds;
    pthread_mutex_unlock(&e->lock);
}

/* After a pass. */
static void go_on(struct engine *e, struct step *t)
{
    struct slot *s = t->slot;
    struct job *j = s->job;
    bool cancelled = t->status == TFT_ERR_CANCELLED;
    size_t fed = tft_pos(s->s) - t->before;
    s->used = e->counts.passes;
    if (cancelled && !atomic_load(&j->cancelled)) {
        /* the cancel was for the slot's previous job */
        s->feed += fed;
        s->n_feed -= fed;
        return;
    }
    if (cancelled)
        engine_end(e, j, "cancelled");
    else if (t->status == TFT_ERR_FULL && !s->in_prompt)
        engine_complete(e, j, "length");
    else if (t->status != TFT_OK) {
        engine_fail(e, j, tft_session_error(s->s)->msg);
        tft_rewind(s->s, 0);
    } else {
        s->feed += t->n;
        s->n_feed -= t->n;
        if (s->in_prompt)
            read_on(e, s);
        if (j->deadline && cli_ns() >= j->deadline)
            end_by(e, j, "time");
        else if (!s->in_prompt)
            choose(e, s);
    }
}

static void end_cancelled(struct engine *e)
{
    for (size_t i = 0; i < e->o.n_slots; i++) {
        struct job *j = e->slots[i].job;
        if (j && atomic_load(&j->cancelled))
            engine_end(e, j, "cancelled");
    }
}

static struct tft_ends count_ends(const struct engine *e)
{
    struct tft_ends sum = e->closed, ends;
    for (uint32_t i = 0; i <= e->o.n_slots; i++) {
        const struct slot *s = i < e->o.n_slots ? &e->slots[i] : &e->embedder.slot;
        if (s->s && tft_session_ends(s->s, &ends)) {
            sum.numbers += ends.numbers;
            sum.at_ends += ends.at_ends;
        }
    }
    return sum;
}

void engine_pass(struct engine *e)
{
    end_cancelled(e);
    embedder_end_cancelled(e);
    if (e->embedder.packed) {
        embedder_pass(e);
        return;
    }
    size_t n = gather(e);
    uint64_t start = cli_ns();
    feed_all(e, n);
    count_time(e, n, cli_ns() - start);
    struct tft_ends ends = count_ends(e);
    pthread_mutex_lock(&e->lock);
    e->counts.ends = ends;
    e->counts.passes += n > 0;
    e->counts.steps += n;
    pthread_mutex_unlock(&e->lock);
    for (size_t i = 0; i < n; i++)
        if (e->steps[i].slot == &e->embedder.slot)
            embedder_go_on(e, &e->steps[i]);
        else
            go_on(e, &e->steps[i]);
}

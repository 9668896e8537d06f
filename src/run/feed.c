/* The tokens of a session: feeding, rewinding, sliding. */
#include "feed.h"

#include "backend.h"
#include "base/error.h"
#include "draft.h"
#include "likely.h"

#include <assert.h>
#include <string.h>

/* -------------------------------------------------------------------------------------- running */

/* Runs the pass through the stages of the model, from layer `from` on. */
static enum tft_status run(struct tft_pass *p, uint32_t from)
{
    const struct tft_model *m = p->m;
    enum tft_status status = TFT_OK;
    for (uint32_t i = 0; i < m->n_stage && status == TFT_OK; i++) {
        const struct tft_stage *stage = &m->stage[i];
        if (from >= stage->end && i + 1 < m->n_stage)
            continue;
        p->ops = &stage->backend->ops;
        p->state = p->s->state[i];
        status = stage->backend->run(p, from > stage->first ? from : stage->first, stage->end);
    }
    return status;
}

static void forget_error(struct tft_session *s) { s->error = (struct tft_error){0}; }

static enum tft_status check_tokens(struct tft_session *s, const int32_t *tokens, size_t n)
{
    uint32_t n_vocab = s->m->n_vocab;
    for (size_t i = 0; i < n; i++)
        if (tokens[i] < 0 || (uint32_t)tokens[i] >= n_vocab)
            return tft_fail(&s->error, TFT_ERR_ARG,
                            "token %d is not within the vocabulary, 0 .. %u", tokens[i],
                            n_vocab - 1);
    return n ? TFT_OK : tft_fail(&s->error, TFT_ERR_ARG, "there are no tokens to compute");
}

static enum tft_status full(struct tft_session *s, size_t n, size_t room)
{
    return tft_fail(&s->error, TFT_ERR_FULL,
                    "the context of %u tokens is full: %zu more do not fit in the %zu left",
                    s->capacity, n, room);
}

/* The exponent is all ones in infinities and NaN. Without a branch, the loop is vectorized. */
bool tft_are_numbers(const float *x, size_t n)
{
    const uint32_t exponent = 0x7f800000;
    uint32_t bits, strange = 0;
    for (size_t i = 0; i < n; i++) {
        memcpy(&bits, x + i, sizeof bits);
        strange |= (bits & exponent) == exponent;
    }
    return !strange;
}

static void forget_outputs(struct tft_session *s) { s->out.n_valid = s->out.n_valid_hidden = 0; }

/* Makes the outputs of a pass valid: n_logits rows of logits from row `row` on, and the last rows
   of hidden vectors. Fails on NaN or infinity. */
static enum tft_status take_outputs(struct tft_session *s, uint32_t row, uint32_t n_logits,
                                    uint32_t n_hidden)
{
    const struct tft_model *m = s->m;
    forget_outputs(s);
    s->out.first_valid = row;
    bool good = tft_are_numbers(s->out.logits + (size_t)row * m->n_vocab,
                                (size_t)n_logits * m->n_vocab);
    if (!good || !tft_are_numbers(s->out.hidden, (size_t)n_hidden * m->n_embd))
        return tft_fail(&s->error, TFT_ERR_NUMBERS,
                        "%s: the %s after token %u have NaN or infinity: the file is damaged, or "
                        "its activations overflow",
                        m->source.name, good ? "hidden vectors" : "logits", s->pos);
    s->out.n_valid = n_logits;
    s->out.n_valid_hidden = n_hidden;
    return TFT_OK;
}

static uint32_t least(size_t a, uint32_t b) { return a < b ? (uint32_t)a : b; }

/* Begins a call that computes n tokens. */
static void begin_call(struct tft_session *s, uint64_t n)
{
    s->call.done = 0;
    s->call.tokens = n;
}

static enum tft_status cancelled(struct tft_session *s)
{
    return tft_fail(&s->error, TFT_ERR_CANCELLED, "cancelled: %llu of %llu tokens are computed",
                    (unsigned long long)s->call.done, (unsigned long long)s->call.tokens);
}

/* Runs the pass from layer `from` on, if the caller does not stop it. A pass that quantizes is not
   stopped between layers: later layers would lack the blocks. */
static enum tft_status run_or_stop(struct tft_pass *p, uint32_t from)
{
    struct tft_session *s = p->s;
    p->stops = p->n >= TFT_LONG_PASS && !p->plan->n_order;
    if (p->stops)
        tft_states_begin(&s->states);
    enum tft_status status = tft_pass_goes_on(p, 0) ? run(p, from) : TFT_ERR_CANCELLED;
    if (status == TFT_ERR_CANCELLED && p->stops)
        tft_states_undo(&s->states);
    return status == TFT_ERR_CANCELLED ? cancelled(s) : status;
}

/* The logits after the prefix, from the residual stream of its last token. */
static enum tft_status after_prefix(struct tft_session *s)
{
    const struct tft_model *m = s->m;
    const float *x = s->named ? s->named->x : m->prefix_x;
    if (s->pos || !x)
        return check_tokens(s, NULL, 0);
    memcpy(s->work->buf[TFT_X], x, m->n_embd * sizeof(float));
    struct tft_kv_chunk chunk;
    struct tft_kv_plan plan = tft_kv_plain_plan(&chunk, 0, 1);
    struct tft_pass p = {.m = m,
                         .s = s,
                         .work = s->work,
                         .logits = s->out.logits,
                         .hidden = s->out.hidden,
                         .plan = &plan,
                         .n_threads = s->n_threads,
                         .n = 1,
                         .n_logits = least(1, s->out.n_logits),
                         .n_hidden = least(1, s->out.n_hidden)};
    begin_call(s, 1);
    enum tft_status status = run_or_stop(&p, m->n_layer);
    forget_outputs(s);
    return status == TFT_OK ? take_outputs(s, 0, p.n_logits, p.n_hidden) : status;
}

/* Drops the checkpoints at positions that the cache cannot go back to. */
static void drop_checkpoints(struct tft_session *s)
{
    while (s->states.n && !tft_kv_keeps(&s->kv, s->states.checkpoint[0].pos))
        tft_states_drop_oldest(&s->states);
}

/* The tokens up to `end` are computed, n of them just now: tft_feed_passed. row: the first of their
   rows of logits. */
static enum tft_status passed(struct tft_session *s, uint32_t n, uint32_t end, uint32_t row,
                              uint32_t n_logits, uint32_t n_hidden)
{
    tft_kv_commit(&s->kv);
    s->call.done += n;
    s->pos = end;
    drop_checkpoints(s);
    tft_states_step(&s->states, end);
    return take_outputs(s, row, n_logits, n_hidden);
}

enum tft_status tft_feed_passed(struct tft_session *s, uint32_t n, uint32_t end, uint32_t n_logits,
                                uint32_t n_hidden)
{
    return passed(s, n, end, 0, n_logits, n_hidden);
}

/* Layers that share the keys and values of earlier layers run when these have stored the whole
   pass, and see the cache as its last chunk does. So a pass ends with the chunk of the first token
   that needs such layers. Returns the tokens of the pass; n tokens are planned, and outputs of the
   last n_last are wanted. */
static uint32_t cut(const struct tft_session *s, uint32_t n, uint32_t n_last)
{
    const struct tft_kv_plan *plan = &s->kv.plan;
    for (uint32_t i = 0; s->m->n_shared && i < plan->n_chunk; i++)
        if (plan->chunk[i].to + n_last > n)
            return plan->chunk[i].to;
    return n;
}

/* Of the outputs wanted of a call, the rows that a pass makes: `n` of them from row `at` on. */
struct outputs {
    uint32_t at, n;
};

/* The outputs of a pass of `step` tokens, with `after` tokens after it; the last n_last tokens want
   outputs. */
static struct outputs outputs_of(uint32_t step, uint32_t after, uint32_t n_last)
{
    uint32_t upto = n_last > after ? n_last - after : 0, n = upto < step ? upto : step;
    return (struct outputs){upto - n, n};
}

/* Computes tokens from .. from + n - 1 of s->tokens. keep: the logits and hidden vectors of the
   last ones are wanted. */
static enum tft_status feed(struct tft_session *s, uint32_t from, uint32_t n, bool keep)
{
    const struct tft_model *m = s->m;
    uint32_t n_logits = keep ? least(n, s->out.n_logits) : 0,
             n_hidden = keep ? least(n, s->out.n_hidden) : 0,
             n_last = n_logits > n_hidden ? n_logits : n_hidden;
    while (n) {
        uint32_t step = s->n_batch;
        if (n <= step)
            step = n;
        else if (n - step < n_last) /* these outputs are of one pass: leave enough tokens for the
                                       last */
            step = n - n_last;
        tft_kv_plan(&s->kv, step);
        if (step == n && cut(s, step, n_last) < step) {
            step = cut(s, step, n_last);
            tft_kv_plan(&s->kv, step);
        }
        n -= step;
        struct outputs logits = outputs_of(step, n, n_logits),
                       hidden = outputs_of(step, n, n_hidden);
        struct tft_pass p = {.m = m,
                             .s = s,
                             .work = s->work,
                             .logits = s->out.logits + (size_t)logits.at * m->n_vocab,
                             .hidden = s->out.hidden + (size_t)hidden.at * m->n_embd,
                             .plan = &s->kv.plan,
                             .n_threads = s->n_threads,
                             .tokens = s->tokens + from,
                             .n = step,
                             .n_logits = logits.n,
                             .n_hidden = hidden.n,
                             .pos = s->kv.n_prefix + s->kv.dropped + from};
        enum tft_status status = run_or_stop(&p, 0);
        if (status != TFT_OK) {
            forget_outputs(s);
            return status;
        }
        from += step;
        status = tft_feed_passed(s, step, from, logits.at + logits.n, hidden.at + hidden.n);
        if (status != TFT_OK)
            return status;
    }
    return TFT_OK;
}

/* --------------------------------------------------------------------------------- draft tokens */

bool tft_feed_drafted(const struct tft_session *s, const int32_t *tokens, size_t n)
{
    return n == 1 && s->lookup.ahead && s->tokens[s->pos] == *tokens;
}

/* Commits the next token, which is listed and was computed as a draft token: no pass is run. */
static enum tft_status take_draft(struct tft_session *s)
{
    struct tft_pass none = {.m = s->m, .s = s};
    if (!tft_pass_goes_on(&none, 0))
        return cancelled(s);
    tft_kv_plan(&s->kv, 1);
    assert(!s->kv.plan.n_order); /* else the pass of the draft token would have ended before it */
    s->lookup.ahead--;
    s->guessed++;
    tft_states_accept(&s->states);
    return passed(s, 1, s->pos + 1, s->out.first_valid + 1, 1, 0);
}

static int32_t likeliest(const struct tft_session *s)
{
    struct tft_likely l = {.kern = &s->m->kern,
                           .logits = s->out.logits,
                           .n = s->m->n_vocab,
                           .tops = s->work->tops};
    return tft_likely_begin(&l);
}

/* A pass of the predictor over the next n tokens, which the cache does not commit. n > 1: the draft
   tokens before go along again, which takes little time, as one plan then serves all. False: the
   cache would quantize. */
static bool predict_after(struct tft_session *s, uint32_t n)
{
    size_t d = s->m->n_embd;
    tft_kv_plan(&s->kv, n);
    if (s->kv.plan.n_chunk > 1 || tft_kv_chunk_quantizes(s->kv.plan.chunk))
        return false;
    struct tft_pass p = {.m = s->m,
                         .s = s,
                         .work = s->work,
                         .logits = s->out.logits,
                         .plan = &s->kv.plan,
                         .n_threads = s->n_threads,
                         .tokens = s->tokens + s->pos,
                         .n = n,
                         .before = s->predicted,
                         .n_logits = 1,
                         .pos = s->kv.n_prefix + s->kv.dropped + s->pos};
    if (run(&p, 0) != TFT_OK)
        return false;
    memcpy(s->predicted + n * d, tft_pass_row(&p, TFT_Y, n - 1), d * sizeof *s->predicted);
    return true;
}

uint32_t tft_feed_predict(struct tft_session *s, uint32_t most)
{
    const struct tft_model *m = s->m;
    uint32_t made = 0, want = tft_draft_worth(&s->draft, most);
    memcpy(s->predicted, s->states.now + m->layer[m->n_layer].state,
           m->n_embd * sizeof *s->predicted);
    while (made < want && predict_after(s, made + 1))
        s->tokens[s->pos + ++made] = likeliest(s);
    return made;
}

/* Lists draft tokens after the next token, which is listed: from the draft model, the predictor or
   the lookup, by the rate of acceptance. Returns their number. */
static uint32_t propose(struct tft_session *s)
{
    uint32_t n = s->pos + 1, most = least(s->capacity - n, s->lookup.most);
    bool drafts = s->draft.s || s->predicted;
    s->draft.proposed = drafts && s->draft.rate > tft_lookup_chance(&s->lookup);
    if (!s->draft.proposed)
        return tft_lookup_propose(&s->lookup, s->tokens, n, most);
    return s->draft.s ? tft_draft_propose(&s->draft, s->m, s->tokens, n, most)
                      : tft_feed_predict(s, most);
}

/* Computes the next token, which is listed, and draft tokens after it in the same pass. The pass
   ends before the next quantization, which cannot be undone: a draft token may be wrong. The cache
   commits only the next token. */
static enum tft_status compute_ahead(struct tft_session *s)
{
    uint32_t n = 1 + propose(s);
    tft_kv_plan(&s->kv, n);
    if (s->kv.plan.n_chunk > 1) {
        n = s->kv.plan.chunk[0].to;
        tft_kv_plan(&s->kv, n);
    }
    struct tft_pass p = {.m = s->m,
                         .s = s,
                         .work = s->work,
                         .logits = s->out.logits,
                         .plan = &s->kv.plan,
                         .n_threads = s->n_threads,
                         .tokens = s->tokens + s->pos,
                         .n = n,
                         .n_draft = n - 1,
                         .n_logits = n,
                         .pos = s->kv.n_prefix + s->kv.dropped + s->pos};
    enum tft_status status = run_or_stop(&p, 0);
    if (status != TFT_OK)
        return status;
    if (n > 1)
        tft_kv_plan(&s->kv, 1);
    s->lookup.ahead = n - 1;
    return passed(s, 1, s->pos + 1, 0, 1, 0);
}

/* -------------------------------------------------------------------------------------- sliding */

void tft_session_drop_tokens(struct tft_session *s, uint32_t n)
{
    const uint32_t *drop = tft_kv_dropped(&s->kv, n);
    uint32_t dropped = 0;
    for (uint32_t i = s->kv.policy.sinks; i < s->pos; i++) {
        if (dropped < n && tft_kv_drops(&s->kv, drop, dropped, s->kv.n_prefix + i)) {
            dropped++;
            continue;
        }
        s->tokens[i - dropped] = s->tokens[i];
        if (s->filter.named)
            s->filter.named[i - dropped] = s->filter.named[i];
    }
}

static enum tft_status slide(struct tft_session *s)
{
    const struct tft_model *m = s->m;
    struct tft_kv_drop drop = tft_kv_drop_of(&s->kv, s->slide);
    for (uint32_t i = m->n_stage; i-- > 0;) { /* a device first: it may fail, the CPU does not */
        enum tft_status status = m->stage[i].backend->drop(s->state[i], s, &drop);
        if (status != TFT_OK)
            return status;
    }
    tft_session_drop_tokens(s, s->slide);
    tft_kv_commit_drop(&s->kv, s->slide);
    s->pos -= s->slide;
    tft_states_forget(&s->states); /* their positions mean other tokens now */
    tft_states_keep(&s->states, s->pos);
    return TFT_OK;
}

/* -------------------------------------------------------------------------------------- feeding */

/* Asks the filter for tokens from .. from + n - 1: SKVQ, section 3.2. Its answer goes by position
   and token alone, so it does not matter how the tokens are fed. */
static void ask_filter(struct tft_session *s, uint32_t from, uint32_t n)
{
    const struct tft_kv_policy *kv = &s->kv.policy;
    for (uint32_t i = from; s->filter.named && i < from + n; i++) {
        uint64_t position = (uint64_t)s->kv.dropped + i;
        s->filter.named[i] = i >= kv->sinks && s->filter.n < kv->keep &&
                         s->filter.keep(s->filter.user, position, s->tokens[i]);
        s->filter.n += s->filter.named[i];
    }
}

/* The filter's answers for tokens from .. end - 1, which leave the session, no longer count. */
static void forget_names(struct tft_session *s, uint32_t from, uint32_t end)
{
    for (uint32_t i = from; s->filter.named && i < end; i++)
        s->filter.n -= s->filter.named[i];
}

/* Lists tokens[n], for which there is room, and asks the filter for them. */
static void list_tokens(struct tft_session *s, const int32_t *tokens, uint32_t n)
{
    memmove(s->tokens + s->pos, tokens, n * sizeof *tokens); /* may overlap: tft_sync */
    ask_filter(s, s->pos, n);
}

/* Computes the tokens that a rewind has taken from the cache. */
static enum tft_status compute_again(struct tft_session *s)
{
    uint32_t pos = s->pos;
    enum tft_status status = feed(s, s->kv.held, pos - s->kv.held, false);
    s->pos = pos; /* the session keeps the tokens that are not computed, too */
    return status;
}

void tft_feed_end(struct tft_session *s, size_t n)
{
    if (n >= TFT_LONG_PASS)
        tft_states_keep(&s->states, s->pos);
}

/* The next token, of a session that makes draft tokens and is not full. */
static enum tft_status decode(struct tft_session *s, int32_t token)
{
    bool guessed = tft_feed_drafted(s, &token, 1);
    if (s->lookup.ahead && s->draft.proposed)
        tft_draft_learn(&s->draft, guessed);
    list_tokens(s, &token, 1);
    tft_lookup_see(&s->lookup, s->tokens, s->pos + 1);
    enum tft_status status = guessed ? take_draft(s) : compute_ahead(s);
    if (status == TFT_OK || status == TFT_ERR_NUMBERS)
        return status;
    forget_outputs(s);
    forget_names(s, s->pos, s->pos + 1);
    tft_lookup_forget(&s->lookup);
    return status;
}

bool tft_feed_can_join(const struct tft_session *s, size_t n)
{
    bool one_chunk = !s->m->n_shared || n <= tft_kv_room(&s->kv); /* see cut */
    return n && n <= s->n_batch && s->kv.held == s->pos && n <= s->capacity - s->pos && one_chunk;
}

/* Tells the lookup that n more tokens are listed, which a pass will compute: draft tokens that an
   earlier pass computed are of no more use. */
static void see(struct tft_session *s, uint32_t n)
{
    if (n == 1 && s->lookup.most)
        tft_lookup_see(&s->lookup, s->tokens, s->pos + 1);
    else
        tft_lookup_forget(&s->lookup);
    s->lookup.ahead = 0;
}

enum tft_status tft_feed_begin(struct tft_session *s, const int32_t *tokens, uint32_t n)
{
    forget_error(s);
    begin_call(s, n);
    enum tft_status status = check_tokens(s, tokens, n);
    if (status == TFT_OK && tft_port_lower(&s->call.cancelled)) {
        forget_outputs(s);
        status = cancelled(s);
    }
    if (status == TFT_OK) {
        list_tokens(s, tokens, n);
        tft_kv_plan(&s->kv, n);
        see(s, n);
    }
    return status;
}

enum tft_status tft_prefill(struct tft_session *s, const int32_t *tokens, size_t n)
{
    forget_error(s);
    if (!n)
        return after_prefix(s);
    size_t all = n;
    enum tft_status status = check_tokens(s, tokens, n);
    if (status != TFT_OK)
        return status;
    if (n > s->capacity - s->pos && !s->slide)
        return full(s, n, s->capacity - s->pos);

    begin_call(s, n + s->pos - s->kv.held);
    if (s->kv.held < s->pos)
        status = compute_again(s);
    if (all == 1 && s->lookup.most && s->pos < s->capacity)
        return status == TFT_OK ? decode(s, *tokens) : status;
    tft_lookup_forget(&s->lookup);
    while (n && status == TFT_OK) {
        if (s->pos == s->capacity)
            status = slide(s);
        if (status != TFT_OK)
            break;
        uint32_t held = s->pos, step = n < s->capacity - held ? (uint32_t)n : s->capacity - held;
        list_tokens(s, tokens, step);
        status = feed(s, held, step, step == n);
        forget_names(s, s->pos, held + step);
        tokens += step;
        n -= step;
    }
    if (status == TFT_OK)
        tft_feed_end(s, all);
    return status;
}

enum tft_status tft_decode(struct tft_session *s, int32_t token)
{
    return tft_prefill(s, &token, 1);
}

void tft_prompt_end(struct tft_session *s)
{
    if (s->pos && s->kv.policy.prefill == TFT_KV_PROMPT)
        s->kv.policy.prefill = s->pos;
    s->lookup.ahead = 0; /* tokens may be quantized before the next one */
    if (s->pos == s->kv.held)
        tft_states_keep(&s->states, s->pos);
}

/* Takes the cache to the first s->pos tokens, or to fewer: with states, to a checkpoint. */
static void rewind_cache(struct tft_session *s)
{
    if (!s->states.size || s->pos >= s->kv.held) {
        tft_kv_rewind(&s->kv, s->pos);
        return;
    }
    tft_kv_rewind(&s->kv, tft_states_before(&s->states, s->pos));
    tft_states_back(&s->states, s->kv.held);
}

size_t tft_rewind_keeps(const struct tft_session *s, size_t pos)
{
    if (s->whole_prompt || s->kv.dropped)
        return 0;
    if (pos >= s->kv.held)
        return s->kv.held;
    uint32_t kept = s->states.size ? tft_states_before(&s->states, (uint32_t)pos) : (uint32_t)pos;
    return tft_kv_keeps(&s->kv, kept) ? kept : 0;
}

enum tft_status tft_rewind(struct tft_session *s, size_t pos)
{
    forget_error(s);
    if (pos > s->pos)
        return tft_fail(&s->error, TFT_ERR_ARG, "cannot rewind to %zu: there are %u tokens", pos,
                        s->pos);
    forget_names(s, (uint32_t)pos, s->pos);
    bool slid = s->kv.dropped;
    s->pos = (uint32_t)pos;
    forget_outputs(s);
    tft_lookup_forget(&s->lookup);
    if (s->whole_prompt && s->pos < s->kv.policy.prefill)
        s->kv.policy.prefill = TFT_KV_PROMPT;
    rewind_cache(s);
    if (s->kv.ring && !s->kv.held)
        tft_session_put_prefix(s);
    if (slid && !s->kv.dropped) { /* all is forgotten: positions begin anew */
        s->filter.n = 0;
        ask_filter(s, 0, s->pos);
    }
    return TFT_OK;
}

enum tft_status tft_sync(struct tft_session *s, const int32_t *tokens, size_t n)
{
    forget_error(s);
    enum tft_status status = check_tokens(s, tokens, n);
    if (status != TFT_OK)
        return status;
    if (n > s->capacity && !s->slide)
        return full(s, n, s->capacity);
    size_t same = 0;
    while (!s->kv.dropped && same < s->pos && same < n - 1 && s->tokens[same] == tokens[same])
        same++;
    tft_rewind(s, same);
    return tft_prefill(s, tokens + same, n - same);
}

/* ------------------------------------------------------------------------------------- stopping */

void tft_cancel(struct tft_session *s) { tft_port_raise(&s->call.cancelled); }

enum tft_status tft_session_threads(struct tft_session *s, int n)
{
    forget_error(s);
    if (n < 1 || n > s->max_threads)
        return tft_fail(&s->error, TFT_ERR_ARG,
                        "%d threads: not within 1 .. %d, with which the session was opened", n,
                        s->max_threads);
    s->n_threads = n;
    return TFT_OK;
}

/* -------------------------------------------------------------------------------------- looking */

const struct tft_error *tft_session_error(const struct tft_session *s) { return &s->error; }

size_t tft_pos(const struct tft_session *s) { return s->pos; }

uint64_t tft_guessed(const struct tft_session *s) { return s->guessed; }

bool tft_session_ends(const struct tft_session *s, struct tft_ends *out)
{
    *out = (struct tft_ends){0};
    for (int i = 0; s->ends && i < s->max_threads; i++) {
        out->numbers += s->ends[i].n.numbers;
        out->at_ends += s->ends[i].n.at_ends;
    }
    return s->ends;
}

size_t tft_capacity(const struct tft_session *s) { return s->capacity; }

const int32_t *tft_tokens(const struct tft_session *s) { return s->tokens; }

/* Has the backend copy the logits that are asked for, unless all logits are there. */
static bool bring(struct tft_session *s, const struct tft_asked *a)
{
    uint32_t last = s->m->n_stage - 1;
    const struct tft_backend *backend = s->m->stage[last].backend;
    return !backend->bring || backend->bring(s->state[last], s, a) == TFT_OK;
}

const float *tft_session_logits(struct tft_session *s, const struct tft_asked *a)
{
    if (!s->out.n_valid || !bring(s, a))
        return NULL;
    return s->out.logits + (s->out.first_valid + s->out.n_valid - 1) * (size_t)s->m->n_vocab;
}

const float *tft_logits(const struct tft_session *s, size_t back)
{
    /* The session looks the same to the caller. */
    const float *newest = tft_session_logits((struct tft_session *)s,
                                             &(struct tft_asked){.k = s->m->n_vocab});
    return newest && back < s->out.n_valid ? newest - back * s->m->n_vocab : NULL;
}

const float *tft_hidden(const struct tft_session *s, size_t back)
{
    if (back >= s->out.n_valid_hidden)
        return NULL;
    return s->out.hidden + (s->out.n_valid_hidden - 1 - back) * (size_t)s->m->n_embd;
}

/* session.c - sessions and embedders. */
#include "tuffet_jni.h"

#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------------------------- progress */

/* The call that computes: its thread, and the object of Kotlin that it reports to, or NULL. */
struct call {
    JNIEnv *env;
    jobject progress;
};

/* An exception ends the call, and Java throws it after the call. */
static bool report(void *user, double done)
{
    const struct call *call = user;
    JNIEnv *env = call->env;
    if (!call->progress)
        return true;
    if (!(*env)->ExceptionCheck(env))
        (*env)->CallVoidMethod(env, call->progress, tft_jni_report, done);
    return !(*env)->ExceptionCheck(env);
}

/* Throws the failure of a call, unless its callback has thrown already. */
static void end(JNIEnv *env, enum tft_status status, const struct tft_error *err)
{
    if (status != TFT_OK && !(*env)->ExceptionCheck(env))
        tft_jni_throw(env, status, err);
}

/* ------------------------------------------------------------------------------------- sessions */

struct session {
    struct tft_session *s;
    const struct tft_model *m;
    char *prefix; /* its name, or NULL */
    struct call call;
};

static struct session *session_of(JNIEnv *env, jlong handle)
{
    return tft_jni_pointer(env, handle, "the session");
}

NATIVE(jlong, sessionOpen, jlong model, jint capacity, jint batch, jint logits, jint hidden,
       jboolean no_logits, jint threads, jboolean slide, jbyteArray kv, jbyteArray prefix,
       jint checkpoints, jint lookup)
{
    const struct tft_model *m = tft_jni_pointer(env, model, "the model");
    if (!m)
        return 0;
    bool ok = true;
    struct tft_error err = {0};
    struct session *session = calloc(1, sizeof *session);
    char *cache = tft_jni_string(env, kv, "kv", &ok);
    char *name = tft_jni_string(env, prefix, "the prefix", &ok);
    const struct tft_session_opts opts = {.size = sizeof opts,
                                          .capacity = (uint32_t)capacity,
                                          .n_batch = (uint32_t)batch,
                                          .n_logits = (uint32_t)logits,
                                          .n_hidden = (uint32_t)hidden,
                                          .no_logits = no_logits,
                                          .n_threads = threads,
                                          .slide = slide,
                                          .kv = cache,
                                          .prefix = name,
                                          .checkpoints = (uint32_t)checkpoints,
                                          .lookup = (uint32_t)lookup,
                                          .progress = report,
                                          .progress_user = session ? &session->call : NULL};
    if (ok) {
        const enum tft_status status =
            session ? tft_session_open(&session->s, m, &opts, &err) : TFT_ERR_NOMEM;
        if (status != TFT_OK)
            tft_jni_throw(env, status, &err);
    }
    free(cache);
    if (!session || !session->s) {
        free(session);
        free(name);
        return 0;
    }
    session->m = m;
    session->prefix = name;
    return (jlong)(intptr_t)session;
}

NATIVE(void, sessionClose, jlong handle)
{
    struct session *session = (struct session *)(intptr_t)handle;
    if (!session)
        return;
    tft_session_close(session->s);
    free(session->prefix);
    free(session);
}

/* Makes the session hold the prompt. Tokens of its prefix are not fed. */
static enum tft_status feed_prompt(const struct session *session, const int32_t *ids, size_t n)
{
    const size_t held = tft_prefix_held(session->m, session->prefix, ids, n);
    if (held < n)
        return tft_sync(session->s, ids + held, n - held);
    const enum tft_status status = tft_rewind(session->s, 0);
    return status == TFT_OK ? tft_prefill(session->s, NULL, 0) : status;
}

/* Appends tokens (0), makes the session hold these alone (1), or a prompt (2). */
NATIVE(void, feed, jlong handle, jintArray tokens, jint how, jobject progress)
{
    size_t n;
    struct session *session = session_of(env, handle);
    int32_t *ids = session ? tft_jni_tokens(env, tokens, &n) : NULL;
    if (!ids)
        return;
    session->call = (struct call){env, progress};
    const enum tft_status status = how == 0   ? tft_prefill(session->s, ids, n)
                                   : how == 1 ? tft_sync(session->s, ids, n)
                                              : feed_prompt(session, ids, n);
    session->call = (struct call){0};
    free(ids);
    end(env, status, tft_session_error(session->s));
}

/* Appends one token. Returns false if the session is full. */
NATIVE(jboolean, decode, jlong handle, jint token)
{
    const struct session *session = session_of(env, handle);
    if (!session)
        return false;
    const enum tft_status status = tft_decode(session->s, token);
    if (status != TFT_OK && status != TFT_ERR_FULL)
        tft_jni_throw(env, status, tft_session_error(session->s));
    return status == TFT_OK;
}

NATIVE(void, rewind, jlong handle, jint pos)
{
    const struct session *session = session_of(env, handle);
    if (session)
        end(env, tft_rewind(session->s, (size_t)pos), tft_session_error(session->s));
}

NATIVE(void, cancel, jlong handle)
{
    const struct session *session = session_of(env, handle);
    if (session)
        tft_cancel(session->s);
}

/* Tokens that it holds (0), its capacity (1), accepted draft tokens (2). */
NATIVE(jlong, sessionNumber, jlong handle, jint which)
{
    const struct session *session = session_of(env, handle);
    if (!session)
        return 0;
    return which == 0   ? (jlong)tft_pos(session->s)
           : which == 1 ? (jlong)tft_capacity(session->s)
                        : (jlong)tft_guessed(session->s);
}

NATIVE(jintArray, tokens, jlong handle)
{
    const struct session *session = session_of(env, handle);
    return session ? tft_jni_int_array(env, tft_tokens(session->s), tft_pos(session->s)) : NULL;
}

/* Logits or a hidden vector; NULL if they were not kept. */
NATIVE(jfloatArray, vector, jlong handle, jint back, jboolean hidden)
{
    struct tft_model_info info = {.size = sizeof info};
    const struct session *session = session_of(env, handle);
    if (!session)
        return NULL;
    tft_model_describe(session->m, &info);
    const float *x =
        hidden ? tft_hidden(session->s, (size_t)back) : tft_logits(session->s, (size_t)back);
    return x ? tft_jni_float_array(env, x, hidden ? info.n_embd : info.n_vocab) : NULL;
}

/* The next tokens: writes their logarithms of probabilities to logprobs, and returns them. */
NATIVE(jintArray, likeliest, jlong handle, jfloatArray logprobs)
{
    const struct session *session = session_of(env, handle);
    if (!session)
        return NULL;
    const size_t k = (size_t)(*env)->GetArrayLength(env, logprobs);
    struct tft_choice *choices = malloc(k * sizeof *choices + 1);
    int32_t *ids = malloc(k * sizeof *ids + 1);
    float *p = malloc(k * sizeof *p + 1);
    jintArray result = NULL;
    if (choices && ids && p) {
        const size_t n = tft_likeliest(session->s, NULL, choices, k);
        for (size_t i = 0; i < n; i++) {
            ids[i] = choices[i].id;
            p[i] = choices[i].logprob;
        }
        (*env)->SetFloatArrayRegion(env, logprobs, 0, (jsize)n, p);
        result = tft_jni_int_array(env, ids, n);
    } else {
        tft_jni_throw(env, TFT_ERR_NOMEM, NULL);
    }
    free(choices);
    free(ids);
    free(p);
    return result;
}

/* Chooses the next token; -1: none may come. state: [2], the seed and how many tokens come before
   one that ends generation, which change. */
NATIVE(jint, sample, jlong handle, jfloat temperature, jint top_k, jfloat top_p, jfloat min_p,
       jfloat repeat_penalty, jint repeat_last, jlongArray state)
{
    jlong numbers[2];
    const struct session *session = session_of(env, handle);
    if (!session)
        return -1;
    (*env)->GetLongArrayRegion(env, state, 0, 2, numbers);
    struct tft_sampler z = {.temperature = temperature,
                            .top_k = top_k,
                            .top_p = top_p,
                            .min_p = min_p,
                            .repeat_penalty = repeat_penalty,
                            .repeat_last = repeat_last,
                            .seed = (uint64_t)numbers[0],
                            .min_tokens = (uint32_t)numbers[1]};
    const int32_t id = tft_sample(&z, session->s);
    numbers[0] = (jlong)z.seed;
    numbers[1] = z.min_tokens;
    (*env)->SetLongArrayRegion(env, state, 0, 2, numbers);
    return id;
}

NATIVE(void, save, jlong handle, jbyteArray path)
{
    bool ok = true;
    struct tft_error err = {0};
    const struct session *session = session_of(env, handle);
    char *name = session ? tft_jni_string(env, path, "the path", &ok) : NULL;
    if (name && ok)
        end(env, tft_session_save(session->s, NULL, name, &err), &err);
    free(name);
}

NATIVE(void, load, jlong handle, jbyteArray path)
{
    bool ok = true;
    struct tft_error err = {0};
    const struct session *session = session_of(env, handle);
    char *name = session ? tft_jni_string(env, path, "the path", &ok) : NULL;
    if (name && ok)
        end(env, tft_session_load(session->s, NULL, name, &err), &err);
    free(name);
}

NATIVE(void, copy, jlong to, jlong from)
{
    struct tft_error err = {0};
    const struct session *into = session_of(env, to), *other = into ? session_of(env, from) : NULL;
    if (other)
        end(env, tft_session_copy(into->s, other->s, &err), &err);
}

/* ------------------------------------------------------------------------------------ embedders */

struct embedder {
    struct tft_embedder *e;
    struct call call;
};

static struct embedder *embedder_of(JNIEnv *env, jlong handle)
{
    return tft_jni_pointer(env, handle, "the embedder");
}

NATIVE(jlong, embedderOpen, jlong model, jint pooling, jboolean raw, jint dims, jint max_text,
       jint threads)
{
    const struct tft_model *m = tft_jni_pointer(env, model, "the model");
    if (!m)
        return 0;
    struct tft_error err = {0};
    struct embedder *embedder = calloc(1, sizeof *embedder);
    const struct tft_embedder_opts opts = {.size = sizeof opts,
                                           .pooling = (enum tft_pooling)pooling,
                                           .raw = raw,
                                           .n_dims = (uint32_t)dims,
                                           .max_text = (uint32_t)max_text,
                                           .n_threads = threads,
                                           .progress = report,
                                           .progress_user = embedder ? &embedder->call : NULL};
    const enum tft_status status =
        embedder ? tft_embedder_open(&embedder->e, m, &opts, &err) : TFT_ERR_NOMEM;
    if (status == TFT_OK)
        return (jlong)(intptr_t)embedder;
    free(embedder);
    tft_jni_throw(env, status, &err);
    return 0;
}

NATIVE(void, embedderClose, jlong handle)
{
    struct embedder *embedder = (struct embedder *)(intptr_t)handle;
    if (embedder)
        tft_embedder_close(embedder->e);
    free(embedder);
}

static uint32_t width_of(const struct embedder *embedder)
{
    struct tft_embedder_info info = {.size = sizeof info};
    tft_embedder_describe(embedder->e, &info);
    return info.width;
}

/* Numbers of a result. */
NATIVE(jint, embedderWidth, jlong handle)
{
    const struct embedder *embedder = embedder_of(env, handle);
    return embedder ? (jint)width_of(embedder) : 0;
}

NATIVE(void, embedderCancel, jlong handle)
{
    const struct embedder *embedder = embedder_of(env, handle);
    if (embedder)
        tft_embedder_cancel(embedder->e);
}

/* The vector of a text. */
NATIVE(jfloatArray, embed, jlong handle, jintArray tokens, jobject progress)
{
    struct tft_text_tokens text = {0};
    struct embedder *embedder = embedder_of(env, handle);
    int32_t *ids = embedder ? tft_jni_tokens(env, tokens, &text.n) : NULL;
    if (!ids)
        return NULL;
    text.ids = ids;
    const uint32_t width = width_of(embedder);
    float *out = malloc(width * sizeof *out + 1);
    jfloatArray result = NULL;
    if (out) {
        embedder->call = (struct call){env, progress};
        const enum tft_status status = tft_embed(embedder->e, &text, 1, out);
        embedder->call = (struct call){0};
        end(env, status, tft_embedder_error(embedder->e));
        if (!(*env)->ExceptionCheck(env))
            result = tft_jni_float_array(env, out, width);
    } else {
        tft_jni_throw(env, TFT_ERR_NOMEM, NULL);
    }
    free(ids);
    free(out);
    return result;
}

/* model.c - errors, arrays, models and their tokens. */
#include "tuffet_jni.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tuffet_chat.h>

jmethodID tft_jni_report;
static jclass exception;
static jmethodID new_exception; /* TuffetException(status, line, errno) */

/* -------------------------------------------------------------------------------------- loading */

/* A reference that stays, also after the function that is called by Java. */
static jclass keep(JNIEnv *env, const char *name)
{
    const jclass found = (*env)->FindClass(env, name);
    return found ? (*env)->NewGlobalRef(env, found) : NULL;
}

JNIEXPORT jint JNICALL JNI_OnLoad(JavaVM *vm, void *reserved)
{
    JNIEnv *env;
    (void)reserved;
    if ((*vm)->GetEnv(vm, (void **)&env, JNI_VERSION_1_6) != JNI_OK)
        return JNI_ERR;
    const jclass progress = keep(env, "tuffet/Progress"); /* keeps its method valid */
    if (!progress || !(exception = keep(env, "tuffet/TuffetException")) ||
        !(new_exception = (*env)->GetMethodID(env, exception, "<init>", "(I[BI)V")) ||
        !(tft_jni_report = (*env)->GetMethodID(env, progress, "report", "(D)V")))
        return JNI_ERR;
    return JNI_VERSION_1_6;
}

/* --------------------------------------------------------------------------------------- errors */

static void throw_line(JNIEnv *env, int status, int os, const char *line)
{
    const jbyteArray bytes = tft_jni_byte_array(env, line, strlen(line));
    const jthrowable e =
        bytes ? (*env)->NewObject(env, exception, new_exception, status, bytes, os) : NULL;
    if (e)
        (*env)->Throw(env, e);
}

void tft_jni_throw(JNIEnv *env, enum tft_status status, const struct tft_error *err)
{
    const bool told = err && err->msg[0];
    throw_line(env, (int)status, told ? err->os : 0, told ? err->msg : tft_status_text(status));
}

void tft_jni_refuse(JNIEnv *env, const char *line)
{
    throw_line(env, TFT_ERR_ARG, 0, line);
}

void *tft_jni_pointer(JNIEnv *env, jlong handle, const char *name)
{
    char line[64];
    if (handle == 0) {
        snprintf(line, sizeof line, "%s is closed", name);
        throw_line(env, CLOSED, 0, line);
    }
    return (void *)(intptr_t)handle;
}

/* --------------------------------------------------------------------------------------- arrays */

char *tft_jni_bytes(JNIEnv *env, jbyteArray array, size_t *n)
{
    const jsize length = (*env)->GetArrayLength(env, array);
    char *bytes = malloc((size_t)length + 1);
    if (!bytes) {
        tft_jni_throw(env, TFT_ERR_NOMEM, NULL);
        return NULL;
    }
    (*env)->GetByteArrayRegion(env, array, 0, length, (jbyte *)bytes);
    bytes[length] = 0;
    *n = (size_t)length;
    return bytes;
}

char *tft_jni_string(JNIEnv *env, jbyteArray array, const char *name, bool *ok)
{
    size_t n;
    char line[64], *bytes;
    if (!array || !*ok)
        return NULL;
    if (!(bytes = tft_jni_bytes(env, array, &n))) {
        *ok = false;
    } else if (strlen(bytes) != n) {
        snprintf(line, sizeof line, "%s has a byte of zero", name);
        tft_jni_refuse(env, line);
        *ok = false;
    }
    return bytes;
}

int32_t *tft_jni_tokens(JNIEnv *env, jintArray array, size_t *n)
{
    const jsize length = (*env)->GetArrayLength(env, array);
    int32_t *ids = malloc((size_t)length * sizeof *ids + 1);
    if (!ids) {
        tft_jni_throw(env, TFT_ERR_NOMEM, NULL);
        return NULL;
    }
    (*env)->GetIntArrayRegion(env, array, 0, length, (jint *)ids);
    *n = (size_t)length;
    return ids;
}

/* Whether an array of Java can have n elements; if not, throws. */
static bool fits(JNIEnv *env, size_t n)
{
    if (n <= INT32_MAX)
        return true;
    tft_jni_throw(env, TFT_ERR_NOMEM, NULL);
    return false;
}

jbyteArray tft_jni_byte_array(JNIEnv *env, const char *bytes, size_t n)
{
    const jbyteArray array = fits(env, n) ? (*env)->NewByteArray(env, (jsize)n) : NULL;
    if (array)
        (*env)->SetByteArrayRegion(env, array, 0, (jsize)n, (const jbyte *)bytes);
    return array;
}

jintArray tft_jni_int_array(JNIEnv *env, const int32_t *x, size_t n)
{
    const jintArray array = fits(env, n) ? (*env)->NewIntArray(env, (jsize)n) : NULL;
    if (array)
        (*env)->SetIntArrayRegion(env, array, 0, (jsize)n, (const jint *)x);
    return array;
}

jfloatArray tft_jni_float_array(JNIEnv *env, const float *x, size_t n)
{
    const jfloatArray array = fits(env, n) ? (*env)->NewFloatArray(env, (jsize)n) : NULL;
    if (array)
        (*env)->SetFloatArrayRegion(env, array, 0, (jsize)n, x);
    return array;
}

/* --------------------------------------------------------------------------------------- models */

static const struct tft_model *model_of(JNIEnv *env, jlong handle)
{
    return tft_jni_pointer(env, handle, "the model");
}

/* The library's version (0), or the best set of kernels of this CPU (1). */
NATIVE(jbyteArray, text, jint which)
{
    const char *text = which == 0 ? tft_version() : tft_cpu_name();
    return tft_jni_byte_array(env, text, strlen(text));
}

/* Opens a file by its path or, if that is NULL, `bytes` bytes of a descriptor. Returns a handle. */
NATIVE(jlong, modelOpen, jbyteArray path, jint fd, jlong offset, jlong bytes, jbyteArray tokenizer,
       jint weights, jboolean vocab_only, jint threads, jbyteArray device, jint gpu_layers)
{
    struct tft_model *m = NULL;
    struct tft_error err = {0};
    bool ok = true;
    char *name = tft_jni_string(env, path, "the path", &ok);
    char *vocabulary = tft_jni_string(env, tokenizer, "the tokenizer's path", &ok);
    char *where = tft_jni_string(env, device, "the device", &ok);
    const struct tft_model_opts opts = {.size = sizeof opts,
                                        .tokenizer = vocabulary,
                                        .weights = (enum tft_weights)weights,
                                        .vocab_only = vocab_only,
                                        .n_threads = threads,
                                        .device = where,
                                        .gpu_layers = (uint32_t)gpu_layers};
    if (ok) {
        const enum tft_status status =
            name ? tft_model_open(&m, name, &opts, &err)
                 : tft_model_open_fd(&m, fd, (uint64_t)offset, (uint64_t)bytes, &opts, &err);
        if (status != TFT_OK)
            tft_jni_throw(env, status, &err);
    }
    free(name);
    free(vocabulary);
    free(where);
    return (jlong)(intptr_t)m;
}

NATIVE(void, modelClose, jlong handle)
{
    tft_model_close((struct tft_model *)(intptr_t)handle);
}

/* The architecture (0), general.name (1), or the chat template (2), which may be NULL. */
NATIVE(jbyteArray, modelText, jlong handle, jint which)
{
    struct tft_model_info info = {.size = sizeof info};
    const struct tft_model *m = model_of(env, handle);
    if (!m)
        return NULL;
    tft_model_describe(m, &info);
    const char *text = which == 0 ? info.arch : which == 1 ? info.name : tft_model_chat_template(m);
    return text ? tft_jni_byte_array(env, text, strlen(text)) : NULL;
}

/* Numbers in the order of ModelInfo. */
NATIVE(jlongArray, modelNumbers, jlong handle)
{
    struct tft_model_info info = {.size = sizeof info};
    const struct tft_model *m = model_of(env, handle);
    if (!m)
        return NULL;
    tft_model_describe(m, &info);
    const jlong numbers[] = {(jlong)info.n_params, (jlong)info.weight_bytes,
                             info.n_vocab,         info.n_ctx,
                             info.n_embd,          info.n_layer,
                             info.n_prefix,        info.encoder};
    const jsize n = sizeof numbers / sizeof *numbers;
    const jlongArray array = (*env)->NewLongArray(env, n);
    if (array)
        (*env)->SetLongArrayRegion(env, array, 0, n, numbers);
    return array;
}

/* --------------------------------------------------------------------------------------- tokens */

NATIVE(jintArray, tokenize, jlong handle, jbyteArray text, jboolean bos, jboolean eos,
       jboolean special, jboolean goes_on)
{
    const unsigned flags = (bos ? TFT_ADD_BOS : 0u) | (eos ? TFT_ADD_EOS : 0u) |
                           (special ? TFT_PARSE_SPECIAL : 0u) | (goes_on ? TFT_CONTINUE : 0u);
    const struct tft_model *m = model_of(env, handle);
    size_t n_text, n = 0;
    char *bytes = m ? tft_jni_bytes(env, text, &n_text) : NULL;
    if (!bytes)
        return NULL;
    jintArray result = NULL;
    int32_t *ids = NULL;
    enum tft_status status = TFT_ERR_FULL;
    /* enough for most texts; if not, n says how many */
    for (size_t cap = n_text / 2 + 16; status == TFT_ERR_FULL; cap = n) {
        free(ids);
        ids = malloc(cap * sizeof *ids);
        status = ids ? tft_tokenize(m, bytes, n_text, flags, ids, cap, &n) : TFT_ERR_NOMEM;
    }
    if (status == TFT_OK)
        result = tft_jni_int_array(env, ids, n);
    else
        tft_jni_throw(env, status, NULL);
    free(ids);
    free(bytes);
    return result;
}

/* The text that a token completes; token -1 ends the text. state: [textBytes], all zero at the
   beginning; element 0 is tft_text.started. */
NATIVE(jbyteArray, push, jlong handle, jbyteArray state, jint token)
{
    struct tft_text t;
    char out[TFT_TEXT_MAX];
    const struct tft_model *m = model_of(env, handle);
    if (!m)
        return NULL;
    (*env)->GetByteArrayRegion(env, state, 0, sizeof t, (jbyte *)&t);
    if ((*env)->ExceptionCheck(env))
        return NULL;
    const size_t n = tft_text_push(&t, m, token, out);
    (*env)->SetByteArrayRegion(env, state, 0, sizeof t, (const jbyte *)&t);
    return tft_jni_byte_array(env, out, n);
}

/* BOS (0), EOS (1); -1 without one. */
NATIVE(jint, token, jlong handle, jint which)
{
    const struct tft_model *m = model_of(env, handle);
    return !m ? -1 : which == 0 ? tft_token_bos(m) : tft_token_eos(m);
}

NATIVE(jboolean, ends, jlong handle, jint token)
{
    const struct tft_model *m = model_of(env, handle);
    return m && tft_token_ends(m, token);
}

/* ----------------------------------------------------------------------------------------- chat */

static void free_messages(struct tft_chat_message *messages, size_t n)
{
    for (size_t i = 0; messages && i < n; i++) {
        free((void *)messages[i].role);
        free((void *)messages[i].text);
    }
    free(messages);
}

/* roles and texts: arrays of byte arrays. NULL: an exception is pending. */
static struct tft_chat_message *read_messages(JNIEnv *env, jobjectArray roles, jobjectArray texts,
                                              size_t *n)
{
    const jsize length = (*env)->GetArrayLength(env, roles);
    struct tft_chat_message *messages = calloc((size_t)length + 1, sizeof *messages);
    bool ok = true;
    if (!messages) {
        tft_jni_throw(env, TFT_ERR_NOMEM, NULL);
        return NULL;
    }
    for (jsize i = 0; ok && i < length; i++) {
        const jobject role = (*env)->GetObjectArrayElement(env, roles, i);
        const jobject text = (*env)->GetObjectArrayElement(env, texts, i);
        messages[i].role = tft_jni_string(env, role, "a role", &ok);
        if (ok && !(messages[i].text = tft_jni_bytes(env, text, &messages[i].n)))
            ok = false;
        (*env)->DeleteLocalRef(env, role);
        (*env)->DeleteLocalRef(env, text);
    }
    *n = (size_t)length;
    if (ok)
        return messages;
    free_messages(messages, *n);
    return NULL;
}

/* The text of a conversation by the model's own template. */
static enum tft_status render(struct tft_chat_text *text, const struct tft_model *m,
                              const struct tft_chat_input *in, struct tft_error *err)
{
    const char *source = tft_model_chat_template(m);
    struct tft_chat_template *t;
    size_t said, result;
    if (!source) {
        strcpy(err->msg, "the model has no chat template");
        return TFT_ERR_UNSUPPORTED;
    }
    enum tft_status status = tft_chat_open(&t, source, strlen(source), err);
    if (status != TFT_OK)
        return status;
    status = tft_chat_render_for(text, t, m, in, err);
    if (status == TFT_OK)
        status = tft_chat_dropped(&said, &result, text, in, err);
    if (status == TFT_OK && said != SIZE_MAX) {
        snprintf(err->msg, sizeof err->msg, "message %zu: the chat template drops it", said);
        status = TFT_ERR_ARG;
    }
    tft_chat_close(t);
    return status;
}

/* The tokens of a conversation. goes_on: [1] receives tft_text.started of the answer. */
static jintArray encode(JNIEnv *env, const struct tft_chat_text *text, const struct tft_model *m,
                        jbooleanArray goes_on)
{
    size_t n = 0;
    bool on = false;
    enum tft_status status = tft_chat_tokenize(text, m, NULL, 0, &n, NULL);
    int32_t *ids = status == TFT_OK ? malloc(n * sizeof *ids + 1) : NULL;
    if (status == TFT_OK)
        status = ids ? tft_chat_tokenize(text, m, ids, n, &n, &on) : TFT_ERR_NOMEM;
    jintArray result = NULL;
    if (status == TFT_OK) {
        (*env)->SetBooleanArrayRegion(env, goes_on, 0, 1, &(jboolean){on});
        result = tft_jni_int_array(env, ids, n);
    } else {
        tft_jni_throw(env, status, NULL);
    }
    free(ids);
    return result;
}

/* variables: NULL, or an object of JSON. time: seconds of local time. */
NATIVE(jintArray, prompt, jlong handle, jobjectArray roles, jobjectArray texts,
       jbyteArray variables, jlong time, jbooleanArray goes_on)
{
    struct tft_chat_input in = {.size = sizeof in, .has_time = true, .time = time};
    struct tft_chat_text text = {0};
    struct tft_error err = {0};
    const struct tft_model *m = model_of(env, handle);
    struct tft_chat_message *messages = m ? read_messages(env, roles, texts, &in.n_message) : NULL;
    char *json = messages && variables ? tft_jni_bytes(env, variables, &in.n_json) : NULL;
    jintArray result = NULL;
    if (messages && (json || !variables)) {
        in.message = messages;
        in.json = json;
        const enum tft_status status = render(&text, m, &in, &err);
        if (status == TFT_OK)
            result = encode(env, &text, m, goes_on);
        else
            tft_jni_throw(env, status, &err);
    }
    tft_chat_text_free(&text);
    free(json);
    free_messages(messages, in.n_message);
    return result;
}

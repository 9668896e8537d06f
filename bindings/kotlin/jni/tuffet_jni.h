/*
 * tuffet_jni.h - shared by the files of the JNI library: errors and arrays.
 *
 * The functions are declared in tuffet/Native.kt. A handle is a jlong: the pointer of a model, a
 * session or an embedder; 0 is a closed one, which is an exception. The Kotlin classes see to it
 * that no handle is closed while a call uses it.
 *
 * Text is UTF-8 in byte arrays. JNI's own strings are "modified UTF-8", which has other bytes for
 * NUL and for characters above U+FFFF, such as emojis.
 */
#ifndef TUFFET_JNI_H
#define TUFFET_JNI_H

#include <jni.h>
#include <stdint.h>
#include <tuffet.h>

/* Declares and begins a static native function of the class tuffet.Native. */
#define NATIVE(type, name, ...)                                                                    \
    JNIEXPORT type JNICALL Java_tuffet_Native_##name(JNIEnv *env, jclass class, __VA_ARGS__);      \
    JNIEXPORT type JNICALL Java_tuffet_Native_##name(                                              \
        __attribute__((unused)) JNIEnv *env, __attribute__((unused)) jclass class, __VA_ARGS__)

/* A status that only the bindings have; Status.CLOSED in Kotlin. */
enum { CLOSED = -1 };

/* The method Progress.report. */
extern jmethodID tft_jni_report;

/* Throws a TuffetException. err: NULL, or the line of the failure. */
void tft_jni_throw(JNIEnv *env, enum tft_status status, const struct tft_error *err);

/* Throws TFT_ERR_ARG with a line. */
void tft_jni_refuse(JNIEnv *env, const char *line);

/* The pointer of a handle; NULL: it is closed, and an exception is pending. name: "the model". */
void *tft_jni_pointer(JNIEnv *env, jlong handle, const char *name);

/* A copy of a byte array for the caller to free, with a NUL after its *n bytes. NULL: an exception
   is pending. */
char *tft_jni_bytes(JNIEnv *env, jbyteArray array, size_t *n);

/* The same as a C string: an array with a byte of zero is refused. *ok becomes false if an
   exception is pending. NULL of NULL, which is no failure. name: "the path". */
char *tft_jni_string(JNIEnv *env, jbyteArray array, const char *name, bool *ok);

/* A copy of an array of tokens for the caller to free. NULL: an exception is pending. */
int32_t *tft_jni_tokens(JNIEnv *env, jintArray array, size_t *n);

/* New arrays. NULL: an exception is pending. */
jbyteArray tft_jni_byte_array(JNIEnv *env, const char *bytes, size_t n);
jintArray tft_jni_int_array(JNIEnv *env, const int32_t *x, size_t n);
jfloatArray tft_jni_float_array(JNIEnv *env, const float *x, size_t n);

#endif

/* unload LIBRARY MODEL: loads the library, computes in two threads, and unloads it, several times.
   Threads that wait for work must not find their code gone. */
#define _POSIX_C_SOURCE 200809L
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "tuffet.h"

typedef enum tft_status open_model(struct tft_model **, const char *, const struct tft_model_opts *,
                                   struct tft_error *);
typedef enum tft_status open_session(struct tft_session **, const struct tft_model *,
                                     const struct tft_session_opts *, struct tft_error *);
typedef enum tft_status prefill(struct tft_session *, const int32_t *, size_t);
typedef void close_session(struct tft_session *);
typedef void close_model(struct tft_model *);

/* ISO C has no conversion of what dlsym returns to a function. */
static void find(void *library, const char *name, void *function)
{
    void *found = dlsym(library, name);
    memcpy(function, &found, sizeof found);
}

static int compute(void *library, const char *path)
{
    open_model *model_open;
    open_session *session_open;
    prefill *fill;
    close_session *session_close;
    close_model *model_close;
    struct tft_model *m;
    struct tft_session *s;
    struct tft_error err;
    struct tft_session_opts o = {.size = sizeof o, .n_threads = 2};
    int32_t ids[64];
    find(library, "tft_model_open", &model_open);
    find(library, "tft_session_open", &session_open);
    find(library, "tft_prefill", &fill);
    find(library, "tft_session_close", &session_close);
    find(library, "tft_model_close", &model_close);
    for (int i = 0; i < 64; i++)
        ids[i] = i + 1;
    if (model_open(&m, path, NULL, &err) != TFT_OK)
        return 1;
    if (session_open(&s, m, &o, &err) != TFT_OK || fill(s, ids, 64) != TFT_OK)
        return 1;
    session_close(s);
    model_close(m);
    return 0;
}

int main(int argc, char **argv)
{
    const struct timespec while_threads_wait = {.tv_nsec = 50000000};
    for (int i = 0; i < 5 && argc > 2; i++) {
        void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
        if (!library || compute(library, argv[2]) != 0 || dlclose(library) != 0) {
            fprintf(stderr, "unload: the library cannot be used in round %d\n", i);
            return 1;
        }
        nanosleep(&while_threads_wait, NULL);
    }
    return argc > 2 ? 0 : 2;
}

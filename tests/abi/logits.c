/* Prints a hash of the logits of a few tokens, by the public functions alone: logits MODEL [ISA]
   Compiled with tuffet.c, and against the library, it must print the same line. */
#include <stdio.h>
#include <tuffet.h>

enum { TOKENS = 24 };

static int failed(const char *message)
{
    fprintf(stderr, "logits: %s\n", message);
    return 1;
}

static uint64_t hashed(uint64_t hash, const void *data, size_t n)
{
    const unsigned char *byte = data;
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ byte[i]) * 0x100000001b3;
    return hash;
}

static int print(struct tft_session *s, size_t n_vocab)
{
    static const int32_t prompt[] = {1, 300, 400, 500, 600};
    uint64_t hash = 0xcbf29ce484222325;
    if (tft_prefill(s, prompt, sizeof prompt / sizeof *prompt) != TFT_OK)
        return failed(tft_session_error(s)->msg);
    for (int i = 0; i < TOKENS; i++) {
        const float *logits = tft_logits(s, 0);
        int32_t best = 0;
        for (size_t id = 0; id < n_vocab; id++)
            best = logits[id] > logits[best] ? (int32_t)id : best;
        hash = hashed(hash, logits, n_vocab * sizeof *logits);
        if (tft_decode(s, best) != TFT_OK)
            return failed(tft_session_error(s)->msg);
    }
    return printf("%016llx\n", (unsigned long long)hash) < 0;
}

int main(int argc, char **argv)
{
    struct tft_model *m;
    struct tft_session *s;
    struct tft_error err;
    if (argc < 2)
        return failed("usage: logits MODEL [ISA]");
    if (argc > 2 && tft_cpu_limit(argv[2]) != TFT_OK)
        return failed("this CPU has no such kernels");
    if (tft_model_open(&m, argv[1], NULL, &err) != TFT_OK)
        return failed(err.msg);
    struct tft_model_info info = {.size = sizeof info};
    struct tft_session_opts opts = {.size = sizeof opts, .n_threads = 2};
    tft_model_describe(m, &info);
    if (tft_session_open(&s, m, &opts, &err) != TFT_OK)
        return failed(err.msg);
    int status = print(s, info.n_vocab);
    tft_session_close(s);
    tft_model_close(m);
    return status;
}

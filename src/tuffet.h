/*
 * tuffet.h - run small language models on the machine in front of you.
 *
 *      struct tft_model *m;
 *      struct tft_session *s;
 *      struct tft_error err;
 *
 *      if (tft_model_open(&m, "model.gguf", NULL, &err) != TFT_OK)
 *          return puts(err.msg), 1;
 *      if (tft_session_open(&s, m, NULL, &err) != TFT_OK)
 *          return puts(err.msg), 1;
 *
 *      int32_t ids[256];
 *      size_t n;
 *      tft_tokenize(m, "Once upon a time", 16, TFT_ADD_BOS, ids, 256, &n);
 *      tft_prefill(s, ids, n);
 *
 *      struct tft_sampler z = {0};                      // all zero: greedy
 *      struct tft_text t = {0};
 *      char out[TFT_TEXT_MAX];
 *      for (;;) {
 *          int32_t id = tft_sample(&z, s);
 *          if (tft_token_ends(m, id))
 *              break;
 *          fwrite(out, 1, tft_text_push(&t, m, id, out), stdout);
 *          if (tft_decode(s, id) != TFT_OK)             // TFT_ERR_FULL at the end of the context
 *              break;
 *      }
 *      tft_session_close(s);
 *      tft_model_close(m);
 *
 * Rules that hold everywhere:
 *   - Every function that can fail returns a tft_status. Where it also takes a struct tft_error,
 *     the error (which may be NULL) gets one line for a person; on success it is left alone.
 *   - The library never prints, exits or aborts, and keeps no global state but the limit of
 *     tft_cpu_limit.
 *   - Option structs start with `size`, which the caller sets to sizeof; every other field means
 *     "default" when zero, so `struct tft_model_opts o = { sizeof o };` is the default. A NULL
 *     options pointer means the same.
 *   - Text is UTF-8 in bytes with a length; it need not end in NUL.
 *   - Threads: a model is immutable once open and may be shared by any number of sessions on any
 *     number of threads. A session, a sampler and a text belong to one thread at a time. More
 *     threads than the system allows are the one thing that is no error here: OpenMP itself ends
 *     the process when it cannot start one.
 *   - Results are the same bits on every CPU, with any number of threads, however the tokens were
 *     fed, as long as the calling thread's floating-point environment is the C default (round to
 *     nearest, subnormals kept).
 */
#ifndef TUFFET_H
#define TUFFET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TFT_VERSION_MAJOR 0
#define TFT_VERSION_MINOR 1
#define TFT_VERSION_PATCH 0

#if !defined _WIN32
#define TFT_API __attribute__((visibility("default")))
#elif defined TFT_BUILD /* of the library itself */
#define TFT_API __declspec(dllexport)
#else
#define TFT_API
#endif

/* --------------------------------------------------------------------------------------- errors */

enum tft_status {
    TFT_OK = 0,
    TFT_ERR_ARG,         /* an argument is outside what this header allows */
    TFT_ERR_NOMEM,       /* an allocation failed */
    TFT_ERR_IO,          /* the operating system refused; tft_error.os holds its errno */
    TFT_ERR_FORMAT,      /* the file is damaged, or is not what it claims to be */
    TFT_ERR_UNSUPPORTED, /* the file is sound, but holds something this version does not run */
    TFT_ERR_FULL,        /* the session has no room for the tokens; nothing was changed */
    TFT_ERR_DEVICE,      /* there is no such device to compute on, or it has failed, and sessions on
                            it will go on doing so */
};

struct tft_error {
    enum tft_status code;
    int os;          /* errno of the system call that failed, or 0 */
    uint64_t offset; /* TFT_ERR_FORMAT: the byte of the file where reading stopped */
    char msg[256];   /* one line, NUL-terminated, no newline: which file, where, what */
};

/* A constant English phrase for a status, never NULL. */
TFT_API const char *tft_status_text(enum tft_status code);

/* "0.1.0": the version of the library that is linked, which may be newer than the header. */
TFT_API const char *tft_version(void);

/* ------------------------------------------------------------------------------ memory, machine */

/* Where a model or a session takes its memory from. `alloc` returns `size` bytes aligned to `align`
   (a power of two, at most 64) or NULL; `free` gets the same pointer and size back. Both are called
   only by a thread that opens or closes the object, or tokenizes with it. NULL in place of this
   struct means the C library. */
struct tft_allocator {
    void *(*alloc)(void *user, size_t size, size_t align);
    void (*free)(void *user, void *ptr, size_t size);
    void *user;
};

/* The kernels in use, best rung first: "avx512", "avx2", "neon", "c". A constant string. */
TFT_API const char *tft_cpu_name(void);

/* Play a weaker machine: use no rung above the named one ("c", "avx2", ...); NULL takes the limit
   away. TFT_ERR_ARG for a name that this machine does not have, and then nothing changes. Affects
   models opened afterwards; results stay the same bits. Not thread-safe: call it before opening
   anything. */
TFT_API enum tft_status tft_cpu_limit(const char *rung);

/* The number of threads that 0 ("automatic") stands for: the CPUs this process may use, by affinity
   and cgroup quota. */
TFT_API int tft_cpu_threads(void);

/* --------------------------------------------------------------------------------------- models */

/* How the numbers of a matrix are held. */
enum tft_weights {
    TFT_WEIGHTS_F32 = 0,
    TFT_WEIGHTS_F16,
    TFT_WEIGHTS_BF16,
    TFT_WEIGHTS_I8, /* what tuffet quantize makes; nothing is expanded to it */
};

struct tft_model; /* weights, tokenizer, architecture: immutable */

struct tft_model_opts {
    size_t size;
    const struct tft_allocator *allocator; /* outlives the model */
    const char *tokenizer;    /* a llama2.c model keeps its vocabulary in a second file: its path.
                                 Else unused. */
    enum tft_weights weights; /* what quantized tensors are expanded to when the model is opened.
                                 Tensors that are f32, f16 or bf16 in the file are used in place and
                                 as they are. */
    bool vocab_only;          /* open only the tokenizer, of any architecture; sessions are then
                                 refused */
    int n_threads;            /* for expanding, at most 1024; 0: tft_cpu_threads() */
    void (*progress)(void *user, double done); /* called now and then from the opening thread, done
                                                  in 0..1 */
    void *progress_user;
    const char *device; /* where to compute: NULL or "cpu", or "cuda", an NVIDIA GPU, "cuda:1" for
                           the second. A file that tuffet quantize has made is wanted, and the
                           plug-in libtuffet-cuda.so; the results are the same bits. */
    uint32_t gpu_layers; /* so many of the last layers, and the head, are the device's; 0: all. For
                            models that it has no room for. */
};

/* Opens a GGUF (v2, v3) file, of floats or as tuffet quantize makes them, or a llama2.c v0 file.
   The file is mapped, not read: pages are shared between processes, and it must not be truncated
   while the model is open (replace it by renaming, as every careful program does).
   With a device, weights are copied there, and each session's cache is there: TFT_ERR_DEVICE if it,
   its driver or its plug-in is missing, TFT_ERR_NOMEM if it has no room for the weights.
   On failure *out is NULL and err says which file, where in it, and what. Time: next to nothing,
   unless quantized tensors have to be expanded. */
TFT_API enum tft_status tft_model_open(struct tft_model **out, const char *path,
                                       const struct tft_model_opts *opts, struct tft_error *err);

/* The same for a GGUF file that is in memory or in flash: `size` bytes at `data`, aligned to 32
   bytes, neither copied nor written, to outlive the model. */
TFT_API enum tft_status tft_model_open_mem(struct tft_model **out, const void *data, size_t size,
                                           const struct tft_model_opts *opts,
                                           struct tft_error *err);

/* After all of its sessions. NULL is fine. */
TFT_API void tft_model_close(struct tft_model *m);

struct tft_model_info {
    size_t size;
    const char *arch;      /* "llama"; owned by the model */
    const char *name;      /* general.name, or "" */
    uint64_t n_params;     /* all weights */
    uint64_t weight_bytes; /* bytes of weights that computing one token reads */
    uint64_t matmul_macs;  /* multiply-adds of one token in matrix products, attention excluded */
    uint64_t kv_width;     /* numbers that one position adds to the KV cache, over all layers: keys
                              and values */
    uint32_t n_vocab, n_ctx, n_embd, n_layer, n_head, n_head_kv, head_dim, n_ff;
    enum tft_weights weights; /* of the linear layers */
    uint32_t n_prefix; /* keys and values that come before every sequence; n_ctx is what they
                          leave */
    bool prefix_bos;   /* they are, among others, those of BOS, which is not to come again */
};

/* Fills the fields that fit in info->size. With vocab_only the dimensions but n_vocab are 0. */
TFT_API void tft_model_describe(const struct tft_model *m, struct tft_model_info *info);

/* The model's chat template (Jinja source) or NULL where it has none. Owned by the model. */
TFT_API const char *tft_model_chat_template(const struct tft_model *m);

/* --------------------------------------------------------------------------------------- tokens */

enum {
    TFT_ADD_BOS = 1,       /* put the beginning-of-sequence token first, if the model was trained
                              with one and its prefix has none */
    TFT_PARSE_SPECIAL = 2, /* let "<|im_end|>" in the text stand for the special token. Never for
                              text of a user's. */
};

/* Writes the first `cap` tokens of the text to ids, and how many there are in all to *n (ids may be
   NULL if cap is 0). Bytes that are not UTF-8 are encoded one by one. Takes temporary memory of
   about 32 bytes per byte of text from the model's allocator. TFT_ERR_NOMEM, or TFT_ERR_ARG for a
   text of 2 GiB or more. */
TFT_API enum tft_status tft_tokenize(const struct tft_model *m, const char *text, size_t len,
                                     unsigned flags, int32_t *ids, size_t cap, size_t *n);

/* The bytes a token stands for, owned by the model; perhaps half a character. Special tokens have
   none unless `special`, which gives their name. NULL and *len = 0 for an id that is no token. */
TFT_API const char *tft_token_text(const struct tft_model *m, int32_t id, bool special,
                                   size_t *len);

/* Beginning and end of sequence, or -1 where the vocabulary has none. */
TFT_API int32_t tft_token_bos(const struct tft_model *m);
TFT_API int32_t tft_token_eos(const struct tft_model *m);

/* Whether generation stops here: end of sequence, of turn, of text. */
TFT_API bool tft_token_ends(const struct tft_model *m, int32_t id);

/* Tokens to text, a token at a time and never half a character: bytes are held back until the
   character is whole, and what can never become one turns into U+FFFD. Start from all zero. Set
   `started` to keep the space that a SentencePiece vocabulary puts before the first word (right
   when the text continues a prompt). */
struct tft_text {
    bool started;
    unsigned char held, bytes[3];
};
enum { TFT_TEXT_MAX = 4096 };

/* Writes the text that `id` completes to `out` and returns its length (no NUL), which may be 0.
   Special tokens have no text. id -1 ends the text: what is still held comes out. */
TFT_API size_t tft_text_push(struct tft_text *t, const struct tft_model *m, int32_t id,
                             char out[TFT_TEXT_MAX]);

/* ------------------------------------------------------------------------------------- sessions */

struct tft_session; /* one sequence of tokens, its KV cache and the logits that follow it */

struct tft_session_opts {
    size_t size;
    const struct tft_allocator *allocator; /* outlives the session */
    uint32_t capacity;   /* tokens it can hold; 0: the model's context length */
    uint32_t n_batch;    /* most tokens computed in one pass; 0: 512. More costs memory, less costs
                            prefill speed. */
    uint32_t n_logits;   /* newest tokens of a call whose logits are kept; 0: 1 */
    int n_threads;       /* at most 1024; 0: tft_cpu_threads() */
    bool slide;          /* when it is full, forget the oldest tokens but the first few instead of
                            failing: TFT_ERR_FULL does not happen */
    const char *kv;      /* how keys and values are held; NULL: what the file says, or "f16". See
                            below. */
    /* NULL, or a filter: whether a token is to stay f16 when it would be its turn to be quantized.
       A cache's `keep` says for how many that may be; from then on it is not asked. It is called
       once for each token that is appended (but the sinks, which stay f16 anyway), oldest first,
       before it is computed, by the thread that calls tft_prefill, tft_decode or tft_sync.
       position: how many tokens came before it, without the model's prefix. It must say the same of
       the same position and token, or else results depend on how tokens were fed, and must not use
       the session. What it said is remembered: of tokens that are computed again after a rewind it
       is not asked again. */
    bool (*keep)(void *user, uint64_t position, int32_t token);
    void *keep_user;
};

/*
 * How keys and values are held: the name of a preset, or one and what is to be different,
 * "kivi:bits=4,residual=64", or knobs alone.
 *
 *      f16, f32     all of them as they are
 *      rtn          2 bits, a scale for each token in a group of channels
 *      kivi         2 bits, keys with a scale for each channel; the newest 128 tokens or fewer stay
 *                   f16
 *      logquant     the same, but what stays f16 is the sparser the older
 *      partial-logquant   that for the keys; of the values only those of the newest tokens
 *      asymkv       2 bits for the keys of the first 16 layers, 1 for all others
 *      skvq         2 bits, clipped, channels that reach as far in groups of 32, E4M3 scales; the
 *                   newest 128 tokens and the first 5 stay f16: for files that tuffet quantize --kv
 *                   has calibrated for it. "skvq:reorder=none,clip=zero" is for any
 *      tuffet       2 bits on average, 1 to 4 for each channel of the keys: for files in which
 *                   tuffet quantize has noted their importance
 *
 *      k, v         bits 1, 1.5 (three levels), 2, 3, 4, 8 or 16 (f16), and where scales belong:
 *                   "2@channel", "1.5@token", keys also "2.25@mixed". By layer: "3x4/1.5x2/2@mixed"
 *                   is 3 bits in the first 4 layers, 1.5 in the 2 that follow, 2 in all others
 *      bits         of both
 *      high, low, lk, lv    k=HIGHxLK/LOW,v=HIGHxLV/LOW in other words: AsymKV's
 *      group        tokens, or channels, that share a scale: 16, 32, 64, 128 or 256
 *      scales       f16 or f8 (E4M3)
 *      clip         none, centre (the part of a group's range that loses least), zero (the same,
 *                   cut towards zero), calibrated (cut towards zero by a part that the file has for
 *                   each layer, head and group of channels)
 *      reorder      none, calibrated: channels that share a scale are such as reach about as far.
 *                   The file has the order of the keys' channels; that of the values' is in its
 *                   weights. A file is calibrated for one size of groups, and clips for its bits
 *      retain       what stays f16: fill:N (up to N tokens, then none), window:N (the newest N at
 *                   least), log2:N (2 N to 3 N, half of them from the newest N, the others the
 *                   sparser the older)
 *      values       of tokens that log2 keeps: kept, or window: those older than the newest N are
 *                   rounded to their bits where they are
 *      residual, window     N; sinks: so many first tokens stay f16 too
 *      prefill      no token is given up until more than so many have come; then those are that
 *                   would have been by then. Takes f16 room for as many (0)
 *      keep         so many tokens that the session's filter names stay f16 too; with fill and
 *                   window (0)
 *
 * A model's prefix is f16 always. Which tokens have been quantized depends on their positions
 * alone, so that results do not depend on how tokens were fed.
 */

/* Bytes that a token takes in such a cache, over all layers, once it has been quantized. 0 if kv is
   none, or not for this model. */
TFT_API size_t tft_kv_bytes(const struct tft_model *m, const char *kv);

/* All memory the session will ever take from the allocator, in bytes: known before any is taken. 0
   if opts are not valid. A session on a device takes memory there too, and from the C library and
   the driver what goes to and fro. */
TFT_API size_t tft_session_bytes(const struct tft_model *m, const struct tft_session_opts *opts);

/* One allocation of exactly that size. The model must outlive the session. TFT_ERR_ARG: a capacity
   beyond the model's context length, a vocab_only model, n_threads below 0 or above 1024, a cache
   that is none or that is not for this model. */
TFT_API enum tft_status tft_session_open(struct tft_session **out, const struct tft_model *m,
                                         const struct tft_session_opts *opts,
                                         struct tft_error *err);

/* NULL is fine. */
TFT_API void tft_session_close(struct tft_session *s);

/* A session that slides (StreamingLLM: Xiao et al. 2023) forgets an eighth of its capacity at once
   when another token would not fit: the oldest tokens that come after the model's prefix and after
   the first 4, or the sinks of a quantized cache, which gives up whole blocks. What stays has seen
   them, and keeps its distances. tft_pos and tft_tokens then tell what is left; tft_sync starts
   over. Positions go on growing, so that a model with learned positions (gpt2) cannot slide:
   TFT_ERR_UNSUPPORTED; nor can a capacity too small for it: TFT_ERR_ARG. */

/* Appends n tokens and computes their logits. TFT_ERR_FULL if there is no room for all of them,
   TFT_ERR_ARG if n is 0 or one is no token of the vocabulary: nothing has changed then.
   TFT_ERR_DEVICE: the device has failed. Allocates nothing. n = 0 is fine while the session holds
   no tokens, if the model's prefix ends in a token: the logits are those that follow it. */
TFT_API enum tft_status tft_prefill(struct tft_session *s, const int32_t *tokens, size_t n);

/* tft_prefill of one token: the step of generation. */
TFT_API enum tft_status tft_decode(struct tft_session *s, int32_t token);

/* Makes the session hold exactly these tokens, computing only what differs: the common beginning is
   kept, the rest is forgotten, the new suffix is computed. At least one token is computed, so that
   the logits are those of the last. */
TFT_API enum tft_status tft_sync(struct tft_session *s, const int32_t *tokens, size_t n);

/* Forgets every token from position pos on. TFT_ERR_ARG if pos is beyond tft_pos. There are no
   logits until the next prefill. Tokens that a quantized cache has taken together cannot be taken
   apart: where pos is among them, the next prefill computes all tokens up to pos
   again. */
TFT_API enum tft_status tft_rewind(struct tft_session *s, size_t pos);

/* How many tokens it holds, how many it can hold, and which. */
TFT_API size_t tft_pos(const struct tft_session *s);
TFT_API size_t tft_capacity(const struct tft_session *s);
TFT_API const int32_t *tft_tokens(const struct tft_session *s);

/* The logits [n_vocab] that follow the newest token (back = 0), the one before it (1), ... of the
   last call; NULL for one that was not kept: back must be below n_logits and below the n of that
   call, and the token have come after the session last slid. Valid until the next call on the
   session. */
TFT_API const float *tft_logits(const struct tft_session *s, size_t back);

/* ------------------------------------------------------------------------------------- sampling */

/* A plain value. All zero is greedy. The filters apply in this order: repetition penalty,
   temperature, top-k, top-p, min-p. The same seed, logits and settings give the same tokens on
   every machine. */
struct tft_sampler {
    float temperature;    /* 0: greedy, else logits are divided by it */
    int32_t top_k;        /* keep the k likeliest; 0: all */
    float top_p;          /* keep the likeliest that together reach this probability; 0 or 1: all */
    float min_p;          /* keep those at least this times as likely as the likeliest; 0: all */
    float repeat_penalty; /* divide the logits (multiply negative ones) of recent tokens; 0 or 1:
                             off */
    int32_t repeat_last;  /* how many tokens are recent; 0: 64 */
    uint64_t seed;        /* state of the random generator, moved on by every draw */
};

/* The token to follow, from the logits of the session's last call; -1 if it has none. Allocates
   nothing. */
TFT_API int32_t tft_sample(struct tft_sampler *z, struct tft_session *s);

#ifdef __cplusplus
}
#endif

#endif

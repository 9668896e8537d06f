/*
 * tuffet.h - run small language models on the machine in front of you.
 *
 * This header is the manual of the library. docs/glossary.md explains its terms (slot, block,
 * prefix, evict, ...), docs/cache.md the caches. A program that continues a text:
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
 *      if (tft_tokenize(m, "Once upon a time", 16, TFT_ADD_BOS, ids, 256, &n) != TFT_OK ||
 *          tft_prefill(s, ids, n) != TFT_OK)
 *          return 1;
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
 *   - Errors: every function that can fail returns a tft_status. Some also take a struct tft_error,
 *     which may be NULL: on failure it receives one line for a person, on success it is unchanged.
 *   - The library never prints, exits or aborts. Its only global state is the limit that
 *     tft_cpu_limit sets, and its threads.
 *   - Option structs start with `size`, which the caller sets to sizeof. In every other field zero
 *     means the default, so `struct tft_model_opts o = { sizeof o };` is all defaults. A NULL
 *     pointer to options means the same. A program built with a newer header may run with this
 *     library: the fields that the library does not know must be zero, or it returns TFT_ERR_ARG.
 *     In structs that the library fills, it sets the fields that it does not know to zero.
 *   - Text is UTF-8: bytes and a length, without a NUL at the end.
 *   - Threads: a model never changes once it is open. Any number of threads may call the functions
 *     that take a `const struct tft_model *`, and any number of sessions may share the model. Use a
 *     session, a sampler and a text from one thread at a time. The library starts threads of its
 *     own, through OpenMP or, as it was built, as a pool of POSIX threads. It goes on with fewer
 *     where they cannot be started, where there are fewer CPUs, and while other processes keep them
 *     waiting. In the child of a fork() sessions go on, with OpenMP on one thread. A callback may
 *     use other sessions.
 *   - Same bits: results do not depend on the CPU, on the number of threads, or on how the tokens
 *     were fed (at once, in chunks, one by one). Models compute in the C default of the
 *     floating-point environment (round to nearest, subnormals kept), whatever the caller's is;
 *     tft_sample computes in the caller's.
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

/* A number to compare: 100 for 0.1.0, 10203 for 1.2.3. */
#define TFT_VERSION_NUMBER                                                                         \
    (TFT_VERSION_MAJOR * 10000 + TFT_VERSION_MINOR * 100 + TFT_VERSION_PATCH)

#if !defined _WIN32
#define TFT_API __attribute__((visibility("default")))
#elif defined TFT_BUILD /* set when the library itself is built */
#define TFT_API __declspec(dllexport)
#else
#define TFT_API
#endif

/* --------------------------------------------------------------------------------------- errors */

enum tft_status {
    TFT_OK = 0,
    TFT_ERR_ARG,         /* an argument is outside what this header allows */
    TFT_ERR_NOMEM,       /* an allocation failed */
    TFT_ERR_IO,          /* the operating system refused; tft_error.os is its errno */
    TFT_ERR_FORMAT,      /* the file is damaged, or is not of the type it claims to be */
    TFT_ERR_UNSUPPORTED, /* the file is valid, but this version cannot run it */
    TFT_ERR_FULL,        /* the session, or the caller's array, has no room for the tokens; no
                            session was changed */
    TFT_ERR_DEVICE,      /* the device to compute on is missing or has failed. After a failure every
                            session on it keeps failing. */
    TFT_ERR_NUMBERS,     /* the model computed logits that are infinite or no numbers */
    TFT_ERR_CANCELLED,   /* the caller stopped the call: tft_session_opts.progress, tft_cancel */
};

struct tft_error {
    enum tft_status code;
    int os;          /* errno of the system call that failed, or 0 */
    uint64_t offset; /* TFT_ERR_FORMAT: the byte of the file where reading stopped */
    char msg[256];   /* one line: the file, the place in it, what is wrong. NUL at the end, no
                        newline. */
    uint64_t reserved[4]; /* for later versions; 0 on failure */
};

/* Names a status in a constant English phrase, never NULL. */
TFT_API const char *tft_status_text(enum tft_status code);

/* The version of the linked library, "0.1.0". It may be newer than this header. */
TFT_API const char *tft_version(void);

/* The same as a number: TFT_VERSION_NUMBER of the linked library's own header. */
TFT_API uint32_t tft_version_number(void);

/* What the library was built with, i = 0, 1, ...; NULL past the last. Constant strings: "openmp" or
   "pthreads", "cuda" (the plug-in was built with it), and the rungs that it has for this kind
   of CPU, also those that this CPU lacks: "c", "avx2", ... */
TFT_API const char *tft_feature(size_t i);

/* ------------------------------------------------------------------------------ memory, machine */

/*
 * Where a model or a session takes its memory from. A NULL pointer to this struct means the C
 * library. `alloc` returns `size` bytes aligned to `align`, a power of two of at most 64, or NULL.
 * `free` receives the same pointer and the same size. Only a thread that opens or closes the
 * object, or that tokenizes with the model, calls them: if several threads tokenize with one model,
 * its allocator must be thread-safe.
 */
struct tft_allocator {
    void *(*alloc)(void *user, size_t size, size_t align);
    void (*free)(void *user, void *ptr, size_t size);
    void *user;
};

/* The best set of kernels (rung) that this CPU and tft_cpu_limit allow: "avx512", "avx2", "neon",
   "c", ... A constant string. */
TFT_API const char *tft_cpu_name(void);

/* Uses no rung above the named one ("c", "avx2", ...) in models that are opened from now on, as a
   weaker machine would; NULL removes the limit. Results stay the same bits. TFT_ERR_ARG: this
   machine has no such rung, and nothing changes. Not thread-safe: call it before anything is
   opened. */
TFT_API enum tft_status tft_cpu_limit(const char *rung);

/* How many threads 0 ("automatic") stands for: the number of CPUs that this process may use, by its
   affinity and its cgroup's quota, at least 1. */
TFT_API int tft_cpu_threads(void);

/* --------------------------------------------------------------------------------------- models */

/* How a weight matrix is held in memory. */
enum tft_weights {
    TFT_WEIGHTS_STORED = 0, /* in tft_model_opts: as the file has it */
    TFT_WEIGHTS_F32,
    TFT_WEIGHTS_F16,
    TFT_WEIGHTS_BF16,
    TFT_WEIGHTS_I8,     /* int8 of a file made by tuffet quantize; not valid in tft_model_opts */
    TFT_WEIGHTS_PACKED, /* codes of 2 to 8 bits of a quantized GGUF file; likewise */
};

struct tft_model; /* weights, tokenizer, architecture: immutable */

struct tft_model_opts {
    size_t size;                           /* sizeof(struct tft_model_opts) */
    const struct tft_allocator *allocator; /* must outlive the model; NULL: the C library */
    const char *tokenizer;    /* path of the vocabulary file of a llama2.c model, NULL: none. Other
                                 models carry their vocabulary and ignore this field. */
    enum tft_weights weights; /* what becomes of matrices that are quantized in the file. STORED:
                                 their codes are laid side by side in about as much memory as they
                                 take in the file, and activations are rounded to 8 bits in groups
                                 of 32; those of a file of tuffet pack are used in place. F32, F16
                                 or BF16: they are expanded to floats, which those of tuffet pack
                                 cannot be. Tensors of f32, f16, bf16 and int8 are used in place, as
                                 the file has them. */
    bool vocab_only;          /* open only the tokenizer, of any architecture; such a model cannot
                                 have sessions */
    int n_threads;            /* for packing and expanding: 1 to 1024, 0: tft_cpu_threads() */
    void (*progress)(void *user, double done); /* NULL, or called from time to time while tensors
                                                  are packed or expanded, by the opening thread:
                                                  done is 0..1 */
    void *progress_user;
    const char *device;  /* where to compute: NULL or "cpu"; "cuda" for the first NVIDIA GPU,
                            "cuda:1" for the second; "mpi" for the processes that mpirun has
                            started. Both need a file that tuffet quantize made, and the plug-in
                            libtuffet-cuda.so or libtuffet-mpi.so. Results are the same bits. */
    uint32_t gpu_layers; /* how many layers, counted from the last one, the device computes with the
                            head; the CPU computes the others. 0: all. For models that are larger
                            than the device's memory. */
    const void *tokenizer_data; /* in place of `tokenizer`: that file in memory, aligned to 32 and
                                   valid while the model is open; NULL: none */
    size_t tokenizer_size;
};

/*
 * Opens a model file: GGUF v2 or v3, with float or quantized weights, or a llama2.c v0 checkpoint.
 * The caller closes *out with tft_model_close. On failure *out is NULL and err names the file, the
 * place in it and the reason.
 *
 * The file is mapped, not read, so processes share its pages. Do not truncate it while the model is
 * open; to replace it, rename a new file over it. Opening takes almost no time unless there are
 * quantized tensors to be packed or expanded; tuffet pack makes a file that is packed already.
 *
 * With opts->device the weights are copied to the device, and the cache of each session is there.
 *
 * With "mpi" all processes call tft_model_open, with the same file. In process 0 it opens the
 * model. In the others it computes for process 0 until that closes the model, and then returns
 * TFT_ERR_CANCELLED. If one process cannot open its part, process 0 returns why, and the others
 * return TFT_ERR_CANCELLED. One model can be open at a time. MPI is begun with
 * MPI_THREAD_SERIALIZED, unless the program has begun it, and ended when the process ends.
 *
 * TFT_ERR_ARG: an option outside its limits. TFT_ERR_IO: the file cannot be read. TFT_ERR_FORMAT:
 * the file is damaged. TFT_ERR_UNSUPPORTED: an architecture, tensor type or vocabulary that tuffet
 * does not know, a float model on a device, or floats of a packed file. TFT_ERR_NOMEM: too little
 * memory, here or on the device. TFT_ERR_DEVICE: the device, its driver or its plug-in is missing.
 */
TFT_API enum tft_status tft_model_open(struct tft_model **out, const char *path,
                                       const struct tft_model_opts *opts, struct tft_error *err);

/* The same for a file in memory or flash. data: `size` bytes, aligned to 32, neither copied nor
   written; it must outlive the model. */
TFT_API enum tft_status tft_model_open_mem(struct tft_model **out, const void *data, size_t size,
                                           const struct tft_model_opts *opts,
                                           struct tft_error *err);

/* The same for `size` bytes from byte `offset` of an open file, such as a package that has the
   model as it is; size 0: all of the rest. They are mapped for reading. offset: a multiple of 32.
   fd: a descriptor of a regular file, on Windows of the C library; the caller may close it when
   this returns. TFT_ERR_ARG: the file does not have these bytes. */
TFT_API enum tft_status tft_model_open_fd(struct tft_model **out, int fd, uint64_t offset,
                                          uint64_t size, const struct tft_model_opts *opts,
                                          struct tft_error *err);

/* Closes a model whose sessions have all been closed. m may be NULL. */
TFT_API void tft_model_close(struct tft_model *m);

struct tft_model_info {
    size_t size;           /* sizeof(struct tft_model_info), set by the caller */
    const char *arch;      /* architecture, "llama"; owned by the model */
    const char *name;      /* general.name of the file, or ""; owned by the model */
    uint64_t n_params;     /* number of weights */
    uint64_t weight_bytes; /* bytes of weights that computing one token reads */
    uint64_t matmul_macs;  /* multiply-adds of one token in matrix products, without attention */
    uint64_t kv_width;     /* numbers that one token adds to the KV cache: keys and values of all
                              layers */
    uint32_t n_vocab, n_ctx, n_embd, n_layer, n_head, n_head_kv, head_dim, n_ff;
    enum tft_weights weights; /* number type of the linear layers' weights */
    uint32_t n_prefix; /* positions of the model's prefix, the stored keys and values that come
                          before every sequence; n_ctx does not count them */
    bool prefix_bos;   /* the prefix includes BOS: do not feed BOS again (tft_tokenize does not add
                          it) */
    uint64_t state_bytes; /* of one copy of the state that layers have beside the KV cache; 0: none
                             has one. See tft_rewind. */
    uint32_t n_expert, n_expert_used; /* experts of a layer, and those that a token is given to:
                                         weight_bytes and matmul_macs count these. 0: it has none */
};

/* Fills the struct as far as info->size goes. The dimensions other than n_vocab are 0 if only the
   vocabulary is open. */
TFT_API void tft_model_describe(const struct tft_model *m, struct tft_model_info *info);

/* The chat template of the model (Jinja source), or NULL if it has none. Owned by the model. */
TFT_API const char *tft_model_chat_template(const struct tft_model *m);

/* --------------------------------------------------------------------------------------- tokens */

enum {
    TFT_ADD_BOS = 1,       /* begin with the BOS token (beginning of sequence), if the vocabulary
                              asks for one and the model's prefix does not include it */
    TFT_CONTINUE = 4,      /* the text continues another one: SentencePiece puts no space in front
                              of its first word */
    TFT_PARSE_SPECIAL = 2, /* turn names such as "<|im_end|>" in the text into special tokens. Do
                              not use it for text that a user wrote. */
};

/* Encodes text[len] to ids[cap], and writes the number of tokens to *n. TFT_ERR_FULL: there are
   more than cap of them; *n is their number, and ids has the first cap. If ids is NULL, tokens are
   only counted. Bytes that are not UTF-8 are encoded one by one. Takes about 32 bytes of temporary
   memory per byte of text from the model's allocator. TFT_ERR_NOMEM; TFT_ERR_ARG: unknown flags,
   or a text of 2 GiB or more; TFT_ERR_UNSUPPORTED: the model has no tokenizer. */
TFT_API enum tft_status tft_tokenize(const struct tft_model *m, const char *text, size_t len,
                                     unsigned flags, int32_t *ids, size_t cap, size_t *n);

/* Bytes [begin, end) of a text. */
struct tft_span {
    size_t begin, end;
};

/* Encodes a text of which only some parts are trusted, such as a conversation: the markup of a chat
   template is trusted, what a user wrote is not. The parts are spans[n_spans], in order and without
   overlap. A name becomes a special token only if all of it is in one span. Text between two
   special tokens is encoded as one text, trusted or not. Takes all flags but TFT_PARSE_SPECIAL.
   Otherwise as tft_tokenize; TFT_ERR_ARG also: spans overlap or leave the text. chat/tuffet_chat.h
   makes such texts. */
TFT_API enum tft_status tft_tokenize_spans(const struct tft_model *m, const char *text, size_t len,
                                           const struct tft_span *spans, size_t n_spans,
                                           unsigned flags, int32_t *ids, size_t cap, size_t *n);

/* The *len bytes that a token stands for, perhaps a part of a character; owned by the model, no NUL
   at the end. A special token has 0 bytes, or those of its name if `special`. NULL and *len = 0 if
   id is not a token. */
TFT_API const char *tft_token_text(const struct tft_model *m, int32_t id, bool special,
                                   size_t *len);

/* The tokens for beginning and end of sequence, -1 if the vocabulary has none. */
TFT_API int32_t tft_token_bos(const struct tft_model *m);
TFT_API int32_t tft_token_eos(const struct tft_model *m);

/* Whether generation stops at this token: end of sequence, of turn, or of text. */
TFT_API bool tft_token_ends(const struct tft_model *m, int32_t id);

/* The state of decoding tokens to text. Output never ends inside a character: bytes wait here until
   their character is complete, and bytes that cannot become a character turn into U+FFFD. Start
   with all fields zero. Set `started` if the text continues a prompt: it keeps the space that a
   SentencePiece vocabulary puts before the first word. */
struct tft_text {
    bool started;
    unsigned char held, bytes[3]; /* the bytes that wait, and how many */
    unsigned char reserved[11];   /* for later versions: zero */
};
enum { TFT_TEXT_MAX = 4096 };

/* Writes the text that token `id` completes to `out` and returns its length in bytes, which may be
   0. No NUL is written; special tokens have no text. id -1 ends the text and writes the bytes that
   still wait. */
TFT_API size_t tft_text_push(struct tft_text *t, const struct tft_model *m, int32_t id,
                             char out[TFT_TEXT_MAX]);

/* ------------------------------------------------------------------------------------- prefixes */

/*
 * A model file may have a prefix, keys and values that come before every sequence; tft_model_info
 * has its size. Its last tokens may be text, such as the first tokens of the model's chat format. A
 * file may also have named prefixes: the prefix and then more text, such as a system message. A
 * session begins behind the text of its prefix, and does not compute it. So do not feed that text:
 *
 *      o.prefix = tft_prefix_best(m, ids, n);           // ids: all n tokens of the prompt
 *      size_t held = tft_prefix_held(m, o.prefix, ids, n);
 *      if (tft_session_open(&s, m, &o, &err) != TFT_OK)
 *          return puts(err.msg), 1;
 *      tft_prefill(s, ids + held, n - held);            // held may be all of them
 */
struct tft_prefix_info {
    size_t size;           /* sizeof(struct tft_prefix_info), set by the caller */
    const char *name;      /* the model owns it, and what the next two pointers point to */
    const char *system;    /* the system message that the text contains, or NULL */
    const int32_t *tokens; /* [n_tokens] of the text, behind the model's prefix */
    uint32_t n_tokens;
    uint32_t positions; /* of the model's context, with those of its prefix */
};

/* Fills the struct, as far as info->size goes, with named prefix 0, 1, ... of the model.
   TFT_ERR_ARG: there are not so many. */
TFT_API enum tft_status tft_prefix_describe(const struct tft_model *m, size_t index,
                                            struct tft_prefix_info *info);

/* How many tokens at the start of a prompt ids[n] the prefix of that name holds (NULL: the model's
   own): BOS if the prefix has it, and all tokens of its text or none. 0 if there is no such prefix.
   All n only if the prefix ends in a token, see tft_prefill.

   The model's own prefix has text if it was made to begin texts, or if all conversations in the
   model's chat format begin with its tokens, such as <|im_start|>: tft_chat_tokenize gives these
   tokens, too. Only tokens count: a prompt that is no conversation, and begins with the same ones,
   goes on behind the prefix likewise. */
TFT_API size_t tft_prefix_held(const struct tft_model *m, const char *name, const int32_t *ids,
                               size_t n);

/* The name of the prefix that holds most of the prompt, for tft_session_opts.prefix; NULL: none
   holds more than the model's own. Owned by the model. */
TFT_API const char *tft_prefix_best(const struct tft_model *m, const int32_t *ids, size_t n);

/* ------------------------------------------------------------------------------------- sessions */

struct tft_session; /* one sequence of tokens, its KV cache, and the logits after its last tokens */
struct tft_sampler; /* how the next token is chosen, see below */

struct tft_session_opts {
    size_t size;                           /* sizeof(struct tft_session_opts) */
    const struct tft_allocator *allocator; /* must outlive the session; NULL: the C library */
    uint32_t capacity; /* how many tokens fit; 0: the model's context length, less the text of a
                          named prefix, which is the most */
    uint32_t n_batch;  /* tokens computed in one pass, at most; 0: 512. More takes memory, fewer
                          makes prefill slower. */
    uint32_t n_logits; /* how many of the newest tokens of a call keep their logits; 0: 1. More than
                          n_batch is TFT_ERR_ARG. */
    int n_threads;     /* 1 to 1024; 0: tft_cpu_threads(). tft_session_threads makes it fewer. */
    bool slide;        /* when the session is full, drop old tokens instead of returning
                          TFT_ERR_FULL; see below */
    const char *kv;    /* how the cache holds keys and values, see below; NULL: as the model file
                          says, or else "f16" */
    /*
     * NULL, or a filter: returns whether a token stays f16 when it would be quantized. The cache's
     * `keep` limits how many tokens may stay; once that many do, the filter is no longer called.
     *
     * It is called once for each appended token except the sinks (which stay f16 anyway), oldest
     * first, before the token is computed, by the thread that calls tft_prefill, tft_decode,
     * tft_sync or tft_rewind. `position` is the number of tokens before it, without the session's
     * prefix. The session remembers the answer, also when it computes the token again after a
     * rewind. There is one exception. When tft_rewind makes a session that has slid compute all of
     * its tokens again, positions are counted from 0 again. tft_rewind then asks for each token.
     *
     * The answer must depend on position and token alone, or results depend on how tokens were fed.
     * The filter must not use the session.
     */
    bool (*keep)(void *user, uint64_t position, int32_t token);
    void *keep_user;
    const char *prefix; /* name of the prefix that the session begins with; NULL: the model's own */
    /*
     * NULL, or called while tokens are computed, by the thread that feeds the session: before each
     * pass of 16 tokens or more and, where it evicts nothing and the CPU computes it, before each
     * of its layers. `done` is 0..1 of the call's tokens. If it returns false, the call ends with
     * TFT_ERR_CANCELLED. The session then has the tokens of the passes that are done, and goes on
     * from there; tft_pos tells how many. Other threads of the session wait meanwhile, so be quick.
     * It must not use the session.
     */
    bool (*progress)(void *user, double done);
    void *progress_user;
    uint32_t checkpoints; /* copies of the state to which the session can go back, at most; 0: 4.
                             For models whose layers have one: see tft_rewind. Others ignore it. */
    uint32_t n_hidden; /* how many of the newest tokens of a call keep their hidden vector, see
                          tft_hidden; 0: none. More than n_batch is TFT_ERR_ARG. On a device it is
                          TFT_ERR_UNSUPPORTED, as is no_logits. */
    bool no_logits;    /* compute no logits, which saves the time and the memory that they take: for
                          hidden vectors alone. n_logits must be 0. */
    uint32_t lookup;   /* how many guesses of the next tokens a pass may compute, at most 14: see
                          below; 0: none */
    struct tft_session *draft; /* NULL, or an open session of a smaller model with the same
                                  vocabulary, which makes guesses too: see below */
    bool count_ends; /* count the numbers that lie at the ends of their ranges: tft_session_ends */
    struct tft_batch *batch; /* NULL, or an open batch of the same model. The session then computes
                                in the batch's memory, also in tft_prefill and tft_sample, and has
                                none of its own for that: a fifth of its bytes, or less. A pass
                                takes no more tokens and threads than the batch has. The batch must
                                outlive the session. One thread at a time may use the batch and all
                                sessions that were opened with it. TFT_ERR_ARG: a batch of another
                                model. */
};

/*
 * Guesses (opts.lookup): speculative decoding by prompt lookup (Saxena 2023). Texts repeat
 * themselves: an answer quotes the question, code names its variables again. When tft_decode runs a
 * pass, the newest tokens are looked up among those that the session holds, and what followed them
 * there is computed in the same pass. A pass that waits for memory takes little longer with more
 * tokens. When the caller then feeds the token that was guessed, tft_decode returns at once: its
 * logits are there. If the caller feeds another token, the guess is forgotten, as if it had never
 * been made.
 *
 * So callers do nothing but feed the tokens that they choose, by tft_sample or in another way; all
 * results are the same bits, and only the time is another one. The session counts how many guesses
 * held, and computes those that are likely enough. It takes memory for the logits of `lookup` more
 * tokens (tft_session_bytes); a rewind in a model with sliding windows, see tft_rewind, may
 * compute all tokens again if max(n_batch, 256) - lookup tokens are dropped.
 *
 * tft_step makes guesses only for a session that is alone in the call. `lookup` has no effect in
 * models with states or with ranges over all tokens of a pass, on a device, and with n_hidden or
 * no_logits.
 *
 * opts.draft makes the guesses that are not found in the text, or are less likely to hold
 * (Leviathan et al. 2023): its likeliest tokens. It belongs to the session from tft_session_open to
 * tft_session_close: calls feed it what the session holds, and the caller neither uses nor closes
 * it meanwhile. Its memory is its own. The first call of tft_decode feeds it the whole prompt; its
 * own progress callback can end that, and there is then no guess. It makes no guesses once it is
 * full, so it should have the same capacity. How much faster it is depends on how alike the two
 * models are.
 */

/*
 * The KV cache. A new token's keys and values are f16, in a slot. A quantized cache evicts tokens
 * from the slots by the rule `retain`: it quantizes them, in blocks of 16 to 256 tokens, to codes
 * that attention reads directly. The cache i8 rounds each key and value to int8 numbers times a
 * float when the token comes, those of the prefix too, and attention sums products of integers; it
 * runs on the CPU alone. The string tft_session_opts.kv names a cache:
 *
 *      PRESET                     "kivi"
 *      PRESET:KNOB=VALUE,...      "kivi:bits=4,window=64"
 *      KNOB=VALUE,...             "k=2@channel,v=1@token,retain=log2:42": other knobs as in kivi
 *
 *      preset            keys        values    tokens that stay f16    after the paper
 *      f16, f32          16, 32      16, 32    all                     no quantization, no knobs
 *      i8                8           8         none                    8 bits each, no knobs
 *      rtn               2@token     2@token   at most 32              round to nearest
 *      kivi              2@channel   2@token   at most 128             KIVI
 *      logquant          2@channel   2@token   84 to 126, sparser      LogQuant
 *                                              with age
 *      partial-logquant  2@channel   2@token   keys: 128 to 192,       LogQuant, section 3.4
 *                                              sparser with age;
 *                                              values: the newest 64
 *      asymkv            2x16/1      1@token   at most 128             AsymKV
 *                        @channel
 *      skvq              2@token     2@token   the newest 128 and the  SKVQ
 *                                              first 5
 *      tuffet            2@mixed     2@token   the newest 128          2 bits on average
 *
 * skvq needs a file that `tuffet quantize --kv` calibrated for it; "skvq:reorder=none,clip=zero"
 * runs on any file. tuffet (and every @mixed cache) needs a file in which tuffet quantize recorded
 * the importance of the channels.
 *
 *      knob             value
 *      k, v             BITS@AXIS of the keys, of the values; either half may be left out
 *        BITS           1, 1.5 (three levels), 2, 3, 4, 8 or 16 (f16). By layer: "3x4/1.5x2/2" is 3
 *                       bits in the first 4 layers, 1.5 in the next 2, 2 in all others.
 *        AXIS           channel: each channel has a scale, which the tokens of a block share
 *                       token: each token has a scale, which `group` channels share
 *                       mixed: as channel, and each channel has 1 to 4 bits by its importance; BITS
 *                       is their average, any number from 1 to 4. Keys only.
 *      bits             BITS of keys and values
 *      high,low,lk,lv   asymkv alone: HIGH bits for keys in the first LK layers and values in the
 *                       first LV, LOW bits in the others: k=HIGHxLK/LOW,v=HIGHxLV/LOW
 *      group            how many tokens or channels share a scale: 16, 32, 64, 128 or 256
 *      scales           number type of the scales: f16, or f8 (E4M3)
 *      clip             which part of a group's range the codes cover
 *                       none: all of it
 *                       centre: the part with the least squared error, cut towards the middle
 *                       zero: the same, cut towards zero
 *                       calibrated: cut towards zero by the factor that the file holds for each
 *                       layer, head and group of channels
 *      reorder          none, or calibrated: channels of similar range share a scale. The file
 *                       holds the order of the keys' channels; its weights include that of the
 *                       values'. A file is calibrated for one `group`, and its clips for its bits.
 *                       calibrated (here and in clip) goes with k and v @token.
 *      retain           which tokens stay f16
 *                       fill:N: up to N, then all of them are evicted at once
 *                       window:N: the newest N, and up to a block more
 *                       log2:N: 2 N to 3 N. Each time 3 N is reached, every other one of the older
 *                       2 N is evicted, so what stays is the sparser the older.
 *      window           the N of retain
 *      kr, vr           retain of the keys alone, of the values alone: kr=fill:128,vr=window:128
 *                       are KIVI's published code. Where the two differ, attention holds the scores
 *                       of all tokens at once, and a session does not slide with log2.
 *      sinks            the first N tokens stay f16 too (0; 4 in a session that slides and
 *                       has no prefix)
 *      keep             up to N tokens that the session's filter names stay f16 too (0); with fill
 *                       and window. A session without a filter refuses it.
 *      prefill          N: evict nothing until the prompt exceeds N tokens, then catch up (0).
 *                       Takes f16 slots for N tokens.
 *                       prompt: the same until tft_prompt_end. Takes f16 slots for the session's
 *                       capacity, and does not slide.
 *
 * An evicted token waits in f16 until enough of them fill a block. N is at most 32768 (prefill:
 * 1048576), and at least 2 in fill and log2. A later knob overrides an earlier one. But for i8, the
 * prefix always stays f16. Which tokens are quantized depends on their positions alone, so results
 * do not depend on how tokens were fed. docs/cache.md describes how the cache works and what
 * each preset costs.
 */

/* Bytes that one more token takes in the cache `kv`, summed over the layers without a sliding
   window: its part of a block of codes, rounded up, or its slot if `kv` is "f16", "f32" or "i8".
   Once a window is full, its layer takes no more; tft_session_bytes counts such layers too. 0 if
   all layers have windows, or if `kv` is invalid or unsupported by this model; err then says why,
   as that of tft_session_open. */
TFT_API size_t tft_kv_bytes(const struct tft_model *m, const char *kv, struct tft_error *err);

/* Bytes that tft_session_open takes from the allocator, which is all that the session ever takes
   from it. 0 if tft_session_open would refuse opts; err says why, as it would. A session on a
   device also takes memory on the device, and from the C library and the driver for transfers. */
TFT_API size_t tft_session_bytes(const struct tft_model *m, const struct tft_session_opts *opts,
                                 struct tft_error *err);

/* Opens a session in one allocation of exactly that size. The caller closes *out with
   tft_session_close; the model must outlive it. On failure *out is NULL. TFT_ERR_ARG: a capacity
   beyond the model's context length, a vocab_only model, n_threads outside 0..1024, a lookup above
   14, a draft without a lookup or with another vocabulary, a prefix that the file does not have, an
   invalid `kv` or one that the file is not calibrated for. TFT_ERR_UNSUPPORTED: a quantized cache
   for a head size that it does not support. TFT_ERR_NOMEM: too little memory, here or on the
   device. TFT_ERR_DEVICE: the device has failed. */
TFT_API enum tft_status tft_session_open(struct tft_session **out, const struct tft_model *m,
                                         const struct tft_session_opts *opts,
                                         struct tft_error *err);

/* s may be NULL. */
TFT_API void tft_session_close(struct tft_session *s);

/*
 * Sliding (opts.slide; StreamingLLM, Xiao et al. 2023). When a full session receives another token,
 * it first drops about an eighth of its capacity: the oldest tokens after its prefix and
 * after the first 4, which attention rests on. The remaining tokens were computed with the dropped
 * ones in view, and keep their positions relative to each other. tft_pos and tft_tokens then
 * describe what remains, and tft_sync computes everything anew.
 *
 * A quantized cache keeps its sinks, and drops whole blocks; with log2 those that were quantized
 * first, so that tokens between them stay. Where `kv` does not name sinks, a session without a
 * prefix that slides has 4 sinks, from its first token on.
 *
 * Positions continue to grow, so a model with learned positions (gpt2) cannot slide:
 * tft_session_open returns TFT_ERR_UNSUPPORTED. It returns TFT_ERR_ARG if the capacity is too small
 * to slide.
 */

/* Appends tokens[n] and computes them; the logits of the last n_logits of them are kept, and the
   hidden vectors of the last n_hidden. Allocates nothing. TFT_ERR_FULL: no room for all n tokens.
   TFT_ERR_ARG: a token outside the vocabulary, or n is 0; after either of these nothing has
   changed. TFT_ERR_DEVICE: the device has failed, and there are no logits. TFT_ERR_NUMBERS: one of
   the logits or hidden vectors is infinite or no number, as those of a damaged model are; the
   tokens are in the session, but there are neither logits nor hidden vectors. TFT_ERR_CANCELLED:
   there are none either, and perhaps fewer tokens.
   n = 0 is valid while the session is empty, if its prefix ends in a token: the logits are then
   those that follow the prefix. */
TFT_API enum tft_status tft_prefill(struct tft_session *s, const int32_t *tokens, size_t n);

/* tft_prefill of one token: the step of generation. */
TFT_API enum tft_status tft_decode(struct tft_session *s, int32_t token);

/* With a cache of prefill=prompt: the tokens that the session holds are the prompt. When the next
   token comes, the prompt is quantized as the cache's other knobs say: the same bits as with
   prefill=N, N being tft_pos. Nothing is quantized before. Does nothing in other sessions, in an
   empty one, and if the prompt has ended: a second prompt behind it is text like any other. A
   rewind, also that of tft_sync, to before its end makes it open again. */
TFT_API void tft_prompt_end(struct tft_session *s);

/* Makes the session hold exactly tokens[n]: keeps the longest common beginning, drops the rest, and
   computes the new suffix. At least one token is computed, so that the logits are those of the last
   one. Errors as tft_prefill. */
TFT_API enum tft_status tft_sync(struct tft_session *s, const int32_t *tokens, size_t n);

/* Drops every token from position pos on; there are no logits until the next tft_prefill.
   TFT_ERR_ARG: pos is beyond tft_pos. A block of a quantized cache cannot be divided: if pos is not
   after the last eviction, the next tft_prefill computes all tokens before pos again. So it does in
   a model with sliding windows, if the session is longer than its windows and more than
   max(n_batch, 256) tokens are dropped. May call the session's filter.

   In models such as lfm2, some layers have a state instead of keys and values: its size does not
   grow with the tokens, and it cannot go back. Such a session keeps copies of the state, called
   checkpoints: behind each tft_prefill of 16 tokens or more, where tft_prompt_end says so, and
   every 512 tokens. If there is no checkpoint at pos, the next tft_prefill computes the tokens
   between the last checkpoint before pos and pos again. Checkpoints that the cache cannot go back
   to are dropped. If all `checkpoints` are in use, a new one replaces the one whose neighbours are
   closest together. A slide forgets all checkpoints and makes a new one; the state stays as it is,
   although it has seen the tokens that the slide drops. */
TFT_API enum tft_status tft_rewind(struct tft_session *s, size_t pos);

/* Makes the call that feeds the session end with TFT_ERR_CANCELLED, where its progress callback
   could; if no call is feeding it, the next one ends so before it computes anything. Any thread may
   call this while the session is open, and a signal handler. */
TFT_API void tft_cancel(struct tft_session *s);

/* Computes with n threads from now on, n at most the number that the session was opened with. The
   results are the same bits. TFT_ERR_ARG: n is outside, and nothing changes. */
TFT_API enum tft_status tft_session_threads(struct tft_session *s, int n);

/* The error of the last call of tft_prefill, tft_decode, tft_sync, tft_rewind, tft_session_threads
   or tft_step, with a line that says what failed, such as what the device reported. If nothing
   failed, the code is TFT_OK and the line is empty. Owned by the session, valid until the next call
   on it. */
TFT_API const struct tft_error *tft_session_error(const struct tft_session *s);

/* How many tokens the session holds, how many fit, and the tokens [tft_pos], which the session
   owns; they are valid until the next call on it. */
TFT_API size_t tft_pos(const struct tft_session *s);
TFT_API size_t tft_capacity(const struct tft_session *s);
TFT_API const int32_t *tft_tokens(const struct tft_session *s);

/* How many of the tokens fed since the session was opened had been computed as guesses, and so ran
   no pass (tft_session_opts.lookup). */
TFT_API uint64_t tft_guessed(const struct tft_session *s);

/* A file that tuffet quantize made has fixed ranges for inputs of linear layers, chosen on its
   calibration text: a number of an input becomes a byte, and a number outside the range becomes 0
   or 255, the byte at that end of the range. With another text, or another kind of text, more
   numbers may lie outside than at calibration, and answers get worse. */
struct tft_ends {
    uint64_t numbers; /* of all inputs with fixed ranges that were computed since the session was
                         opened */
    uint64_t at_ends; /* those of them whose byte is 0 or 255: outside, or within half a step of an
                         end */
};

/* Fills *out with what a session with tft_session_opts.count_ends has counted, also in tft_step.
   Returns false, and fills in zeros, in a session without count_ends, and in a session of which a
   device computes layers: a device does not count.

   Counting reads each of these bytes once more, which takes little time beside the products, and a
   cache line of memory for each thread. Counts are the same on every CPU, with any number of
   threads. Unlike results they depend on how the tokens were fed. Where logits or hidden vectors
   are kept of some tokens of a pass, the head computes only these, and so do the last layers,
   except in tft_step. Guesses that did not hold (tft_session_opts.lookup) are counted too, and
   tokens that are computed again after a rewind. Saved sessions and copies do not have the counts.
   As with all functions of a session, one thread at a time: not while another feeds it. */
TFT_API bool tft_session_ends(const struct tft_session *s, struct tft_ends *out);

/* The logits [n_vocab] after the newest token (back = 0), the one before it (1), ... of the last
   call. Owned by the session, valid until the next call on it. NULL if they were not kept: back
   must be below n_logits and below the n of that call, and the token must have come after the
   session last slid. Also NULL if they are in other processes (docs/install.md) that have failed;
   tft_session_error then says so. */
TFT_API const float *tft_logits(const struct tft_session *s, size_t back);

/* The hidden vector [n_embd] of the newest token (back = 0), the one before it (1), ... of the last
   call: the output of the model's last norm, from which the head computes the logits. It describes
   the token and the text before it. An embedding of a text is the mean of those of its tokens, or
   the last one, as the model was trained for. A file that tuffet quantize made with --rotate all
   has them rotated, and without the gains of the norm. Owned by the session, valid until the next
   call on it. NULL if it was not kept, as for tft_logits: back must be below n_hidden. Saved
   sessions do not have them. */
TFT_API const float *tft_hidden(const struct tft_session *s, size_t back);

/* ------------------------------------------------------------------- several sessions at a time */

/*
 * A batch feeds several sessions of a model in one pass, which reads the weights once for all of
 * them. Each session gets the bits that it would get alone:
 *
 *      struct tft_batch *b;                             // once for a model
 *      tft_batch_open(&b, m, NULL, &err);
 *      ...
 *      struct tft_step step[] = {{.session = s, .tokens = &next, .n = 1},
 *                                {.session = t, .tokens = prompt, .n = 64}};
 *      tft_step(b, step, 2);
 *      if (step[0].status == TFT_OK)
 *          next = tft_sample(&z, s);
 *
 * Sessions may differ in everything but the model: caches, prefixes, how full they are. They may
 * also be fed by tft_prefill in between. A prompt is best fed in pieces of 32 to 128 tokens, so
 * that sessions that generate need not wait for long.
 */
struct tft_batch;

struct tft_batch_opts {
    size_t size;                           /* sizeof(struct tft_batch_opts) */
    const struct tft_allocator *allocator; /* must outlive the batch; NULL: the C library */
    uint32_t n_sessions; /* in one pass, at most; 0: 16. A pass has as many rows of logits, of which
                            a session with n_logits above 1 may take several */
    uint32_t n_tokens;   /* in one pass, at most, and at least n_sessions; 0: 512 */
    int n_threads;       /* 1 to 1024; 0: tft_cpu_threads() */
};

/* What a session gets. */
struct tft_step {
    struct tft_session *session; /* of the batch's model; in one step only */
    const int32_t *tokens;       /* [n] as for tft_prefill */
    size_t n;
    enum tft_status status; /* out: that of tft_prefill; tft_session_error has the line */
};

/* Opens a batch. The caller closes *out with tft_batch_close; the model must outlive it. On failure
   *out is NULL. TFT_ERR_ARG: n_threads outside 0..1024, a vocab_only model, or more than 65,536
   sessions or tokens. TFT_ERR_NOMEM. */
TFT_API enum tft_status tft_batch_open(struct tft_batch **out, const struct tft_model *m,
                                       const struct tft_batch_opts *opts, struct tft_error *err);

/* b may be NULL. */
TFT_API void tft_batch_close(struct tft_batch *b);

/* Feeds steps[n], in as few passes as there is room for; allocates nothing. Each step has a status
   of its own, and one that fails does not stop the others. Returns the first status that is not
   TFT_OK. TFT_ERR_ARG: also a session of another model than the batch, or one that is in several
   steps: all its steps are refused, and it stays as it is.

   Steps share passes, except these, which are computed as by tft_prefill:
     - a step without tokens, with more than n_batch of its session or n_tokens of the batch, or
       with more logits to keep than n_sessions of the batch
     - a step whose session slides now, or computes again what a rewind took from its cache
     - a step of one token that was guessed, or that is the only step, if its session makes guesses
       (tft_session_opts.lookup)
     - all steps of a model on a device, or with ranges over all tokens of a pass

   A shared pass calls no progress callback, and tft_cancel does not stop it: that ends the next
   call. A pass runs on no more threads than the batch has, nor than any of its sessions. One thread
   at a time may use a batch, and one a session. */
TFT_API enum tft_status tft_step(struct tft_batch *b, struct tft_step *steps, size_t n);

/* ------------------------------------------------------------------------------- saved sessions */

/*
 * A session can be saved and loaded: what follows has the same bits as if the session had gone on,
 * also after a rewind or a slide. Loading copies the cache, so it takes a small part of the time
 * that computing took:
 *
 *      if (tft_session_load(s, &z, "talk.session", &err) != TFT_OK)
 *          tft_prefill(s, ids, n);                      // s is as it was
 *      ...
 *      tft_session_save(s, &z, "talk.session", &err);
 *
 * A saved session has the tokens, the part of the cache that is in use, the states of layers and
 * their checkpoints, the logits of the newest token (tft_logits with back = 0) and, where z is not
 * NULL, the settings and the seed of a sampler, and the place in its grammar. It is for sessions of
 * the same model file with the same `weights`, `kv`, prefix and filter, and of any capacity that
 * has room for its tokens. (With LongRoPE the capacity must be on the same side of the original
 * context.) Other options may differ: n_batch, n_logits, n_threads, slide, lookup, and
 * checkpoints, of which the newest are kept. The CPU may be another one. docs/embedding.md says how
 * models are told apart, docs/file-format.md has the format.
 */

/* Bytes of the session when it is saved now. z: NULL, or its sampler. */
TFT_API size_t tft_session_save_bytes(const struct tft_session *s, const struct tft_sampler *z);

/* Saves the session, and z where it is not NULL, to data[size]. TFT_ERR_FULL: size is less than
   tft_session_save_bytes. TFT_ERR_UNSUPPORTED: the cache is on a device. TFT_ERR_ARG: z has a
   grammar that has failed, so that no token may come. */
TFT_API enum tft_status tft_session_save_mem(const struct tft_session *s,
                                             const struct tft_sampler *z, void *data, size_t size,
                                             struct tft_error *err);

/* Saves it to a file, which gets its name when it is complete and on disk: a file that was there
   stays until then, also after an error or a crash. Errors as tft_session_save_mem, and TFT_ERR_IO,
   TFT_ERR_NOMEM. */
TFT_API enum tft_status tft_session_save(const struct tft_session *s, const struct tft_sampler *z,
                                         const char *path, struct tft_error *err);

/* Replaces what the session holds by a saved session. Everything in the file is checked before
   anything of the session or of *z changes: after an error they are as they were. Allocates nothing
   without a grammar. z: NULL, or gets the sampler's settings and seed, if the file has them. If it
   has a place in a grammar, z->grammar must be a state of the same grammar, which is put there;
   otherwise z->grammar stays where it is.
   TFT_ERR_FORMAT: not a saved session, or a damaged one. TFT_ERR_ARG: saved with another model,
   cache, prefix or grammar; err says which. TFT_ERR_FULL: more tokens than the session has room
   for. TFT_ERR_UNSUPPORTED: of a later version, or the cache is on a device. */
TFT_API enum tft_status tft_session_load_mem(struct tft_session *s, struct tft_sampler *z,
                                             const void *data, size_t size, struct tft_error *err);

/* The same of a file, which must not be changed meanwhile. TFT_ERR_IO: it cannot be read. */
TFT_API enum tft_status tft_session_load(struct tft_session *s, struct tft_sampler *z,
                                         const char *path, struct tft_error *err);

/* Replaces what `to` holds by what `from` holds, as saving and loading it would: `to` goes on from
   the tokens of `from` with the same bits. To share a beginning only, tft_rewind it afterwards.
   Both are open sessions of one struct tft_model and match as a saved session must. Each has memory
   of its own, so from then on neither depends on the other. Neither may be in use by another
   thread. Allocates nothing. After an error `to` is as it was. TFT_ERR_ARG: they do not match; err
   says in what. TFT_ERR_FULL: `from` has more tokens than `to` has room for. TFT_ERR_UNSUPPORTED:
   the cache is on a device. */
TFT_API enum tft_status tft_session_copy(struct tft_session *to, const struct tft_session *from,
                                         struct tft_error *err);

/* ------------------------------------------------------------------------------------- grammars */

/*
 * A grammar says which texts a model may generate. A sampler that has a state of one chooses only
 * among tokens after which the text can still be completed, and lets the text end only where the
 * grammar does:
 *
 *      struct tft_lexicon *lx;                          // once for a model
 *      struct tft_grammar *g;                           // once for a grammar
 *      struct tft_grammar_state *gs;                    // once for a text
 *      if (tft_lexicon_open(&lx, m, &err) != TFT_OK ||
 *          tft_grammar_open(&g, lx, TFT_GBNF, text, strlen(text), &err) != TFT_OK ||
 *          tft_grammar_begin(&gs, g, &err) != TFT_OK)
 *          return puts(err.msg), 1;
 *      z.grammar = gs;                                  // tft_sample obeys it, and moves it on
 *
 * A lexicon and a grammar never change: any number of threads and states may share them. All take
 * their memory from the model's allocator, which must be thread-safe if threads share it.
 */
struct tft_lexicon;       /* the vocabulary, ordered by the bytes of its tokens */
struct tft_grammar;       /* an automaton made from text */
struct tft_grammar_state; /* a place in a grammar */

/* Takes about 0.1 s for 262,144 tokens. The model must outlive the lexicon, the lexicon its
   grammars, a grammar its states. TFT_ERR_UNSUPPORTED: the model has no tokenizer. TFT_ERR_NOMEM.
   The functions that close and end take NULL. */
TFT_API enum tft_status tft_lexicon_open(struct tft_lexicon **out, const struct tft_model *m,
                                         struct tft_error *err);
TFT_API void tft_lexicon_close(struct tft_lexicon *lx);

enum tft_grammar_kind {
    TFT_GBNF,  /* rules as llama.cpp reads them; the text is what the rule root matches */
    TFT_REGEX, /* a regular expression that the whole text must match */
};

/* Compiles text[len]. TFT_ERR_FORMAT: an error in it; err has the line and the column.
   TFT_ERR_UNSUPPORTED: too large, a rule that begins with itself, or nothing matches.
   TFT_ERR_NOMEM; TFT_ERR_ARG. Special tokens may come only where the grammar names them, as
   <NAME> or <[ID]>. Bytes that no token is alone cannot come. */
TFT_API enum tft_status tft_grammar_open(struct tft_grammar **out, const struct tft_lexicon *lx,
                                         enum tft_grammar_kind kind, const char *text, size_t len,
                                         struct tft_error *err);
TFT_API void tft_grammar_close(struct tft_grammar *g);

/* Makes a state at the beginning of the grammar. One thread at a time may use a state.
   TFT_ERR_NOMEM; TFT_ERR_UNSUPPORTED: there are more than 4096 ways to read the beginning of a
   text, the most that a state can follow. */
TFT_API enum tft_status tft_grammar_begin(struct tft_grammar_state **out,
                                          const struct tft_grammar *g, struct tft_error *err);
TFT_API void tft_grammar_end(struct tft_grammar_state *s);

/* Puts `to` where `from` is, of the same grammar: to go back, keep a copy. */
TFT_API enum tft_status tft_grammar_copy(struct tft_grammar_state *to,
                                         const struct tft_grammar_state *from);

/* Whether the token may come next; whether the text may end here. A token that ends generation may
   come where the text may end. */
TFT_API bool tft_grammar_allows(struct tft_grammar_state *s, int32_t id);
TFT_API bool tft_grammar_can_end(const struct tft_grammar_state *s);

/* Whether the text may end here, and nothing else may come. There is then no token to choose. */
TFT_API bool tft_grammar_is_done(const struct tft_grammar_state *s);

/* Moves the state behind a token. TFT_ERR_ARG: the token may not come; the state does not change.
   TFT_ERR_UNSUPPORTED: too many ways to read the text, as for tft_grammar_begin. After
   TFT_ERR_UNSUPPORTED or TFT_ERR_NOMEM no token may come, and tft_sample returns -1. tft_sample
   calls this for the token that it returns. */
TFT_API enum tft_status tft_grammar_accept(struct tft_grammar_state *s, int32_t id);

/* Moves the state behind the text that must come next, where the grammar allows only one, and
   writes its tokens to ids[cap]: append them without asking the model. The tokens are those of
   tft_tokenize with TFT_CONTINUE, so the model sees the text as in training. If the grammar goes
   on, the last token is left to the model, since its bytes may begin a longer token. A token that
   the file suppresses, and those behind it, are left to the model too. Returns the number of
   tokens; 0: nothing is forced. */
TFT_API size_t tft_grammar_forced(struct tft_grammar_state *s, int32_t *ids, size_t cap);

/* ------------------------------------------------------------------------------------- sampling */

/*
 * How the next token is chosen: a plain value, all zero is greedy. The same seed, logits and
 * settings give the same tokens on every machine:
 *
 *   1. The logits of recent tokens are divided by repeat_penalty, negative ones multiplied; once
 *      each.
 *   2. Tokens are ranked by logit, and of equal ones by id, the smaller first. A token whose logit
 *      is NaN has no rank; if all are, the token is 0. Nor has a token that the file suppresses
 *      (tokenizer.ggml.suppress_tokens): it is never chosen, also where a grammar allows it.
 *      Greedy takes the first and draws nothing.
 *   3. Each token has a weight, its probability relative to the first one's:
 *      exp((logit - first logit) * (1 / temperature)), in float; 1 if the logits are equal. The
 *      inverse is at most FLT_MAX.
 *   4. top_k keeps the first k. Let `sum` be the sum of their weights.
 *   5. Of these, the first tokens are kept that top_p and min_p allow, at least one: top_p keeps as
 *      few as have top_p * sum of the weights, min_p those with a weight of at least min_p.
 *   6. A number from [0, 1) is drawn from the seed, and multiplied by the sum of the weights kept.
 *      The token is the first at which the running sum of weights is above it. A token of weight
 *      0 is never drawn.
 */
struct tft_sampler {
    float temperature;    /* step 3; 0: greedy, the likeliest token */
    int32_t top_k;        /* choose among the k likeliest; 0: all */
    float top_p;          /* choose among the likeliest that together have this probability; 0 or 1:
                             all */
    float min_p;          /* choose among those with at least this part of the likeliest's
                             probability; 0: all */
    float repeat_penalty; /* divides the logits of recent tokens (multiplies negative ones); 0 or 1:
                             off */
    int32_t repeat_last;  /* how many of the newest tokens are recent; 0: 64 */
    uint64_t seed;        /* state of the random generator; every draw changes it */
    struct tft_grammar_state *grammar; /* only its tokens may come, and it takes the one that is
                                          chosen; NULL: every token may come */
    uint64_t reserved[3]; /* for later versions: zero */
};

/* Chooses the next token from the logits of the session's last call; -1 if there are none, as for
   tft_logits, if z->reserved is not zero, or if no token may come. Allocates nothing without a
   grammar. */
TFT_API int32_t tft_sample(struct tft_sampler *z, struct tft_session *s);

/* The same from logits[n_vocab] of the caller, who keeps them: those of tft_logits with a bias, or
   with a mask, -infinity for each token that may not come. (If all are -infinity, all have the same
   chance.) The session lends its memory, and its tokens for repeat_penalty; it need not have logits
   of its own. */
TFT_API int32_t tft_sample_logits(struct tft_sampler *z, struct tft_session *s,
                                  const float *logits);

struct tft_choice {
    int32_t id;
    float logprob; /* ln of its probability among all tokens, at temperature 1 */
};

/* Writes the k likeliest tokens to out[k], the likeliest first, of equals the smallest id, and
   returns how many: fewer than k if the vocabulary is smaller; 0 without logits. logits: [n_vocab]
   of the caller; NULL: of the session's last call, the same as tft_logits(s, 0). Allocates
   nothing. */
TFT_API size_t tft_likeliest(struct tft_session *s, const float *logits, struct tft_choice *out,
                             size_t k);

/* ln of the probability of a token, such as the one that tft_sample has taken; logits as for
   tft_likeliest. The settings of a sampler play no part. NaN without logits, or if the vocabulary
   does not have the token. */
TFT_API float tft_logprob(struct tft_session *s, const float *logits, int32_t id);

#ifdef __cplusplus
}
#endif

#endif

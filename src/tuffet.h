/*
 * tuffet.h - run small language models on a CPU.
 *
 * This header is the manual of the library. docs/glossary.md explains its terms (slot, block,
 * prefix, quantize, ...), docs/cache.md the caches. A program that continues a text:
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
 *     which may be NULL: a failure writes one line for a person to it, a success leaves it
 *     unchanged.
 *   - The library never prints, exits or aborts. Its only global state is the limit that
 *     tft_cpu_limit sets, and its threads.
 *   - Option structs start with `size`, which the caller sets to sizeof. Zero in any other field
 *     means the default, so `struct tft_model_opts o = { sizeof o };` is all defaults, and so is a
 *     NULL pointer to options. A program built with a newer header may run with this library:
 *     fields that the library does not know must be zero, or the call returns TFT_ERR_ARG. The
 *     library sets such fields to zero in structs that it fills. A struct that the library makes,
 *     such as tft_chat_event, has the size that the library knows: later fields are not there.
 *   - Structs without `size` that may grow, such as elements of arrays, end with `reserved`. The
 *     caller sets it to zero: name the other fields, as in { .n = 1 }. If it is not zero, a call
 *     returns TFT_ERR_ARG, and tft_sample -1. The library sets it to zero in structs that it fills.
 *   - A later version with the same soname may add functions, fields and values of enums
 *     (docs/embedding.md, "What may change"). So a `switch` over a value that the library returns
 *     needs a default.
 *   - Text is UTF-8: bytes and a length, without a NUL at the end.
 *   - Threads: a model never changes once it is open. Any number of threads may call the functions
 *     that take a `const struct tft_model *`, and any number of sessions may share the model. Use a
 *     session, a sampler and a text from one thread at a time. The library starts threads of its
 *     own: by OpenMP, or in a pool of POSIX threads, as it was built. It computes with fewer
 *     threads if some cannot start, if there are fewer CPUs, or while other processes keep threads
 *     waiting. Sessions work in the child of a fork(), with OpenMP on one thread. A callback may
 *     use other sessions.
 *   - Same bits: results do not depend on the CPU, on the number of threads, or on how the tokens
 *     were fed (at once, in chunks, one by one). Models compute in C's default floating-point
 *     environment (round to nearest, subnormals kept); tft_sample computes in the caller's.
 */
#ifndef TUFFET_H
#define TUFFET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TFT_VERSION_MAJOR 1
#define TFT_VERSION_MINOR 0
#define TFT_VERSION_PATCH 0

/* A number to compare: 10203 for 1.2.3. */
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
    TFT_ERR_ARG,         /* an argument is outside the limits of this header */
    TFT_ERR_NOMEM,       /* an allocation failed */
    TFT_ERR_IO,          /* the operating system refused; tft_error.os is its errno */
    TFT_ERR_FORMAT,      /* a file is damaged, or is not of the type it claims to be; or a text,
                            such as a grammar, has an error */
    TFT_ERR_UNSUPPORTED, /* the file or text is valid, but this version or this model cannot do what
                            it asks for */
    TFT_ERR_FULL,        /* the session, or the caller's array, has no room for the tokens, and no
                            session was changed; or a bound is reached */
    TFT_ERR_DEVICE,      /* the device to compute on is missing or has failed. After a failure every
                            session on it keeps failing. */
    TFT_ERR_NUMBERS,     /* the model computed results that are NaN or infinity */
    TFT_ERR_CANCELLED,   /* the caller stopped the call: by a callback that returned false, or by
                            tft_cancel or tft_embedder_cancel */
};

struct tft_error {
    enum tft_status code;
    int os;          /* errno of the system call that failed, or 0 */
    uint64_t offset; /* TFT_ERR_FORMAT: the byte of the file where reading stopped */
    char msg[256];   /* one line: the file, the place in it, the fault; a NUL, no newline */
    uint64_t reserved[4]; /* for later versions: set to zero on failure */
};

/* Names a status in a constant English phrase, never NULL. */
TFT_API const char *tft_status_text(enum tft_status code);

/* The version of the linked library, such as "1.2.3". It may be newer than this header. */
TFT_API const char *tft_version(void);

/* The same as a number: TFT_VERSION_NUMBER of the linked library's own header. */
TFT_API uint32_t tft_version_number(void);

/* Lists the features of the build, i = 0, 1, ...; NULL past the last. Constant strings: "openmp" or
   "pthreads", "cuda" (the plug-in was built too), and all ISA levels of this kind of CPU, also
   levels that this CPU lacks: "c", "avx2", ... */
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

/* The highest ISA level that this CPU and tft_cpu_limit allow: "avx512", "avx2", "neon",
   "c", ... A constant string. */
TFT_API const char *tft_cpu_name(void);

/* Limits models that are opened from now on to the ISA level `isa` ("c", "avx2", ...), as on a
   weaker machine; NULL removes the limit. Results stay the same bits. TFT_ERR_ARG: this machine has
   no such level, and nothing changes. Not thread-safe: call it before anything is opened.

   On a CPU with AMX, opening a model asks Linux for the permission to use its tiles (arch_prctl),
   once for the process. From then on sigaltstack() refuses stacks that have no room for them: less
   than getauxval(AT_MINSIGSTKSZ) bytes, about 12 kB. If a thread has such a stack already, Linux
   refuses, and the level is as if the CPU lacked it. After tft_cpu_limit("avx512vnni") nothing is
   asked. */
TFT_API enum tft_status tft_cpu_limit(const char *isa);

/* The number of threads that 0 ("automatic") stands for, at least 1: one for each fast core that
   this process may use by its affinity, and no more than the quota of its cgroup. Two CPUs of one
   core count once. Cores that are much slower than the fastest one do not count. */
TFT_API int tft_cpu_threads(void);

/* --------------------------------------------------------------------------------------- models */

/* How a weight matrix is held in memory. */
enum tft_weights {
    TFT_WEIGHTS_STORED = 0, /* in tft_model_opts: as the file has it */
    TFT_WEIGHTS_F32,
    TFT_WEIGHTS_F16,
    TFT_WEIGHTS_BF16,
    TFT_WEIGHTS_I8,     /* int8 of a file made by tuffet quantize; not valid in tft_model_opts */
    TFT_WEIGHTS_PACKED, /* codes of 1 to 8 bits of a quantized GGUF file; likewise */
};

/* How the hidden vectors of a text's tokens become one vector, an embedding. */
enum tft_pooling {
    TFT_POOLING_NONE,   /* of a file: it does not say. Most models were not trained for it */
    TFT_POOLING_MEAN,   /* the mean */
    TFT_POOLING_LAST,   /* the last one */
    TFT_POOLING_OTHER,  /* of a file: another one, which tuffet does not know */
    TFT_POOLING_CLS,    /* the first one */
    TFT_POOLING_RANK,   /* scores by the classifier of a reranker: tft_rerank */
    TFT_POOLING_TOKENS, /* none: a vector for each token. No file says so */
};

struct tft_model; /* weights, tokenizer, architecture: immutable */

struct tft_model_opts {
    size_t size;                           /* sizeof(struct tft_model_opts) */
    const struct tft_allocator *allocator; /* must outlive the model; NULL: the C library */
    const char *tokenizer;    /* path of the vocabulary file of a llama2.c model, NULL: none. Other
                                 models carry their vocabulary and ignore this field. */
    enum tft_weights weights; /* how to hold matrices that the file quantizes. STORED: keep the
                                 codes, side by side, in about the memory of the file, and round
                                 activations to 8 bits in groups of 32. Codes in a file of tuffet
                                 pack are used in place. F32, F16 or BF16: matrices are expanded to
                                 floats, except from a file of tuffet pack. Tensors of f32, f16,
                                 bf16 and int8 are used in place. */
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
    uint32_t gpu_layers; /* the device computes the head and the last gpu_layers layers, the CPU the
                            other layers. 0: all. For models that are larger than the device's
                            memory. */
    const void *tokenizer_data; /* in place of `tokenizer`: the vocabulary file in memory, aligned
                                   to 32 and valid while the model is open; NULL: none */
    size_t tokenizer_size;
    const char *ignore_keys; /* names of values ARCH.NAME, separated by commas, that count as
                                absent. A file with a value that tuffet does not know, or that it
                                cannot follow, is refused otherwise. NULL: none */
    uint64_t experts_bytes;  /* of a mixture of experts in a file of tuffet pack or tuffet quantize,
                                or of floats: the most bytes of experts that stay in memory. Passes
                                ask for experts ahead of their use, and the least recently used ones
                                give their memory back. Results are the same bits. 0: no bound, but
                                if the file does not fit in the memory of this process and its
                                cgroup, the experts get what the rest of the file leaves */
    bool predictor; /* open the block that predicts a further token, too: sessions with a lookup
                       take its draft tokens. TFT_ERR_ARG: the file has none, or of another
                       architecture than qwen35 and qwen35moe. TFT_ERR_UNSUPPORTED: the file has
                       a prefix, or the model is opened on a device. */
};

/*
 * Opens a model file: GGUF v2 or v3, with float or quantized weights, or a llama2.c v0 checkpoint.
 * The caller closes *out with tft_model_close. On failure *out is NULL and err names the file, the
 * place in it and the reason.
 *
 * The file is mapped, not read, so processes share its pages. Do not truncate the file while the
 * model is open; to replace it, rename a new file over it. Opening takes almost no time unless
 * there are quantized tensors to be packed or expanded; tuffet pack makes a file that is packed
 * already.
 *
 * With opts->device, the device has a copy of the weights, and the cache of each session.
 *
 * With "mpi", all processes call tft_model_open with the same file. Process 0 gets the model. In
 * the other processes the call computes for process 0 until process 0 closes the model, and then
 * returns TFT_ERR_CANCELLED. If one process cannot open its part, the call fails with the reason in
 * process 0, and with TFT_ERR_CANCELLED in the others. One model can be open at a time. The library
 * begins MPI with MPI_THREAD_SERIALIZED, unless the program has done so, and ends MPI with the
 * process.
 *
 * TFT_ERR_ARG: an option outside its limits. TFT_ERR_IO: the file cannot be read. TFT_ERR_FORMAT:
 * the file is damaged. TFT_ERR_UNSUPPORTED: an architecture, tensor type, vocabulary or value that
 * tuffet does not know, a float model on a device, floats of a packed file, or experts_bytes
 * without experts that are used in place. TFT_ERR_NOMEM: too little memory, here or on the device.
 * TFT_ERR_DEVICE: the device, its driver or its plug-in is missing.
 */
TFT_API enum tft_status tft_model_open(struct tft_model **out, const char *path,
                                       const struct tft_model_opts *opts, struct tft_error *err);

/* The same for a file in memory or flash. data: `size` bytes, aligned to 32, neither copied nor
   written; it must outlive the model. */
TFT_API enum tft_status tft_model_open_mem(struct tft_model **out, const void *data, size_t size,
                                           const struct tft_model_opts *opts,
                                           struct tft_error *err);

/* The same for `size` bytes from byte `offset` of an open file, such as an uncompressed member of a
   package; size 0: to the end of the file. The bytes are mapped for reading. offset: a multiple of
   32. fd: a descriptor of a regular file, on Windows of the C library; the caller may close the
   descriptor after the call. TFT_ERR_ARG: the file does not have these bytes. */
TFT_API enum tft_status tft_model_open_fd(struct tft_model **out, int fd, uint64_t offset,
                                          uint64_t size, const struct tft_model_opts *opts,
                                          struct tft_error *err);

/* Closes a model. Close all of its sessions first. m may be NULL. */
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
    uint32_t n_prefix; /* positions of the model's prefix, the stored keys and values before every
                          sequence; n_ctx does not count them */
    bool prefix_bos;   /* the prefix includes BOS: do not feed BOS again (tft_tokenize adds none) */
    uint64_t state_bytes; /* of one copy of the recurrent states of all layers; 0: no layer has one.
                             See tft_rewind. */
    uint32_t n_expert, n_expert_used; /* experts of a layer, and experts that compute a token:
                                         weight_bytes and matmul_macs count these. 0: it has none */
    uint32_t n_device;                /* layers that a device computes, the last ones; 0: none */
    enum tft_pooling pooling;         /* of embeddings: see tft_embed. RANK also if the file does
                                         not say, and has a classifier */
    bool add_eos; /* a text to embed ends with EOS, which tft_tokenize adds with TFT_ADD_EOS */
    bool encoder; /* attention sees later tokens, too: the model makes embeddings, and has neither
                     logits nor sessions. See tft_embedder_open. */
    const char *kv; /* the cache that tft_session_opts.kv NULL stands for, "" of an encoder; owned
                       by the model */
    const char *file_type; /* number type of the file as other programs name it, "Q4_K_M": by
                              general.file_type, or else the type with most bytes; a constant */
};

/* Fills the struct as far as info->size goes. If only the vocabulary is open, the dimensions other
   than n_vocab and n_ctx are 0; arch, pooling, encoder and file_type are known. n_ctx is then the
   number of the file, or 0, and does not leave out a prefix. */
TFT_API void tft_model_describe(const struct tft_model *m, struct tft_model_info *info);

/* Bytes of the identity of a model, with the NUL. */
enum { TFT_IDENTITY = 49 };

/* Writes the identity of a model, 48 hexadecimal digits and a NUL, for data that belongs to one
   model: a saved session has it too. Files with other tensors, values or vocabularies have other
   identities, and so do other tft_model_opts.weights. Of a file that tuffet did not make, only a
   few bytes of each tensor count: other training is noticed, a damaged byte may not be. Takes
   milliseconds, also for a model of gigabytes. */
TFT_API void tft_model_identity(const struct tft_model *m, char out[TFT_IDENTITY]);

/* The chat template of the model (Jinja source), or NULL if it has none. Owned by the model. */
TFT_API const char *tft_model_chat_template(const struct tft_model *m);

/* The chat template of conversations with tools: the template that the file names tool_use; without
   one, the chat template. Owned by the model. */
TFT_API const char *tft_model_tool_template(const struct tft_model *m);

/* Returns the text that goes before a text to embed: the prompt of that name in the file, such as
   "query" or "document", which tuffet import takes from sentence-transformers. *len: its bytes;
   there is no NUL after them. Owned by the model. NULL, and *len is 0: the file has no such prompt.
   */
TFT_API const char *tft_model_prompt(const struct tft_model *m, const char *name, size_t *len);

/* The text of a pair for tft_rerank, in which {query} and {document} stand for the two texts, and
   names of special tokens count. NULL: the file has none, and tft_tokenize_pair makes the pair.
   Otherwise as tft_model_prompt. */
TFT_API const char *tft_model_rerank_template(const struct tft_model *m, size_t *len);

/* --------------------------------------------------------------------------------------- tokens */

enum {
    TFT_ADD_BOS = 1,       /* begin with the BOS token (beginning of sequence), if the vocabulary
                              asks for one and the model's prefix does not include it. BOS comes
                              once: its name at the start of trusted text adds no second BOS */
    TFT_ADD_EOS = 8,       /* end with EOS or, for BERT, [SEP], if tft_model_info.add_eos says that
                              the model wants it: for a text to embed */
    TFT_CONTINUE = 4,      /* the text continues another text: SentencePiece puts no space before
                              the first word */
    TFT_PARSE_SPECIAL = 2, /* turn names such as "<|im_end|>" in the text into special tokens. Not
                              for text that a user wrote. */
};

/* Encodes text[len] to ids[cap], and writes the number of tokens to *n. TFT_ERR_FULL: there are
   more than cap tokens; *n is their number, and ids has the first cap. If ids is NULL, tokens are
   only counted. Bytes that are not UTF-8 are encoded one by one. Takes about 32 bytes of temporary
   memory per byte of text from the model's allocator. TFT_ERR_NOMEM; TFT_ERR_ARG: unknown flags, or
   a text of 2 GiB or more; TFT_ERR_UNSUPPORTED: the model has no tokenizer. */
TFT_API enum tft_status tft_tokenize(const struct tft_model *m, const char *text, size_t len,
                                     unsigned flags, int32_t *ids, size_t cap, size_t *n);

/* Bytes [begin, end) of a text. */
struct tft_span {
    size_t begin, end;
};

/* Encodes a text that is trusted in part, such as a conversation: the markup of a chat template is
   trusted, a user's text is not. The trusted parts are spans[n_spans], in order and without
   overlap. A name becomes a special token only if one span contains the whole name. Text between
   two special tokens is encoded as one text, trusted or not. Takes all flags but TFT_PARSE_SPECIAL.
   Otherwise as tft_tokenize; TFT_ERR_ARG also: spans overlap or leave the text. chat/tuffet_chat.h
   makes such texts. */
TFT_API enum tft_status tft_tokenize_spans(const struct tft_model *m, const char *text, size_t len,
                                           const struct tft_span *spans, size_t n_spans,
                                           unsigned flags, int32_t *ids, size_t cap, size_t *n);

/* Encodes two texts, a[len_a] and b[len_b], as one input for a reranker or a classifier of pairs,
   with the special tokens of the model's pairs: [CLS] a [SEP] b [SEP] for BERT, <s> a </s></s> b
   </s> for RoBERTa and XLM-R. Writes tokens to ids[cap], their number to *n, and the type of each
   token to types[cap], unless types is NULL: 1 for b and the token at its end if the model has two
   types, else 0. flags: TFT_PARSE_SPECIAL or 0. As tft_tokenize otherwise: TFT_ERR_FULL, counting
   with ids NULL, and errors; TFT_ERR_UNSUPPORTED also: the vocabulary has no token that separates
   two texts. */
TFT_API enum tft_status tft_tokenize_pair(const struct tft_model *m, const char *a, size_t len_a,
                                          const char *b, size_t len_b, unsigned flags, int32_t *ids,
                                          unsigned char *types, size_t cap, size_t *n);

/* The *len bytes that a token stands for, perhaps a part of a character; owned by the model, no NUL
   at the end. A special token has 0 bytes, or the bytes of its name if `special`. NULL and *len = 0
   if id is not a token. */
TFT_API const char *tft_token_text(const struct tft_model *m, int32_t id, bool special,
                                   size_t *len);

/* The tokens for beginning and end of sequence, -1 if the vocabulary has none. */
TFT_API int32_t tft_token_bos(const struct tft_model *m);
TFT_API int32_t tft_token_eos(const struct tft_model *m);

/* The token before a part of a text with a gap, for models that fill gaps (fill in the middle); -1
   if the vocabulary has none. The prompt is BOS, the token of the prefix and the text before the
   gap, the token of the suffix and the text after the gap, and the token of the middle, which the
   model writes. */
enum tft_fim { TFT_FIM_PREFIX, TFT_FIM_SUFFIX, TFT_FIM_MIDDLE };
TFT_API int32_t tft_token_fim(const struct tft_model *m, enum tft_fim part);

/* Returns whether generation stops at this token: end of sequence, of turn, or of text. */
TFT_API bool tft_token_ends(const struct tft_model *m, int32_t id);

/* The state of decoding tokens to text. Output never ends inside a character: bytes wait here until
   their character is complete, and bytes that cannot become a character turn into U+FFFD. Start
   with all fields zero. Set `started` if the text continues a prompt: the space that a
   SentencePiece vocabulary puts before the first word then stays. */
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
 * A model file may have a prefix: precomputed keys and values before every sequence. tft_model_info
 * has the size. The last tokens of a prefix may be text, such as the first tokens of the model's
 * chat format. A file may also have named prefixes, which add more text, such as a system message.
 * A session begins after the text of its prefix and does not compute that text, so do not feed it:
 *
 *      o.prefix = tft_prefix_best(m, ids, n);           // ids: all n tokens of the prompt
 *      size_t held = tft_prefix_held(m, o.prefix, ids, n);
 *      if (tft_session_open(&s, m, &o, &err) != TFT_OK)
 *          return puts(err.msg), 1;
 *      tft_prefill(s, ids + held, n - held);            // held may be all of them
 */
struct tft_prefix_info {
    size_t size;           /* sizeof(struct tft_prefix_info), set by the caller */
    const char *name;      /* the model owns name, system and tokens */
    const char *system;    /* the system message that the text contains, or NULL */
    const int32_t *tokens; /* [n_tokens] of the text after the model's prefix */
    uint32_t n_tokens;
    uint32_t positions; /* of the model's context, the model's prefix included */
};

/* Fills the struct, as far as info->size goes, with named prefix 0, 1, ... of the model.
   TFT_ERR_ARG: the model has at most `index` of them. */
TFT_API enum tft_status tft_prefix_describe(const struct tft_model *m, size_t index,
                                            struct tft_prefix_info *info);

/* Counts the tokens at the start of a prompt ids[n] that prefix `name` holds (NULL: the model's
   own): BOS if the prefix has BOS, and all tokens of its text or none. 0 if there is no such
   prefix. All n only if the prefix ends in a token, see tft_prefill.

   The model's own prefix has text if it was made to begin texts, or if all conversations in the
   model's chat format begin with its tokens, such as <|im_start|>: tft_chat_tokenize gives these
   tokens, too. Only tokens count: any other prompt that begins with the same tokens continues after
   the prefix as well. */
TFT_API size_t tft_prefix_held(const struct tft_model *m, const char *name, const int32_t *ids,
                               size_t n);

/* Returns the name of the prefix that holds most of the prompt, for tft_session_opts.prefix; NULL:
   none holds more than the model's own. Owned by the model. */
TFT_API const char *tft_prefix_best(const struct tft_model *m, const int32_t *ids, size_t n);

/* ------------------------------------------------------------------------------------- adapters */

struct tft_lora; /* a LoRA adapter of one model: immutable */

/*
 * Opens a LoRA adapter (Hu et al. 2021) of a model: a GGUF file as llama.cpp has it, with
 * general.type "adapter" and tensors NAME.lora_a and NAME.lora_b. Its numbers are copied as floats,
 * into memory of the model's allocator. A session with the adapter computes
 * y = W x + scale (alpha / r) B (A x) in place of y = W x; W stays as it is, so sessions of one
 * model may differ.
 *
 * Matrices of attention, of feed-forward and of other mixers can be adapted, and a head that is not
 * tied to the embedding. Where W is codes, x is rounded to 8 bits in groups of 32 for A, too. A
 * prefix of the file was computed without the adapter, and stays as it is.
 *
 * The caller closes *out with tft_lora_close, after all sessions that have it and before the model.
 * On failure *out is NULL. TFT_ERR_ARG: an adapter of another architecture, or a vocab_only model.
 * TFT_ERR_UNSUPPORTED: no LoRA adapter, a tensor that the model does not have or that cannot be
 * adapted, NaN or infinity, an encoder, or a model of tuffet quantize, as its inputs are int8.
 * TFT_ERR_FORMAT: a damaged file, or a tensor of another shape. TFT_ERR_IO; TFT_ERR_NOMEM.
 */
TFT_API enum tft_status tft_lora_open(struct tft_lora **out, const struct tft_model *m,
                                      const char *path, struct tft_error *err);

/* lora may be NULL. */
TFT_API void tft_lora_close(struct tft_lora *lora);

struct tft_lora_use {
    const struct tft_lora *lora;
    float scale;          /* 1: as trained; 0: as if it were not there */
    uint64_t reserved[2]; /* for later versions: zero */
};

/* ------------------------------------------------------------------------------------- sessions */

struct tft_session; /* one sequence of tokens, its KV cache, and the logits after its last tokens */
struct tft_sampler; /* how the next token is chosen, see below */

struct tft_session_opts {
    size_t size;                           /* sizeof(struct tft_session_opts) */
    const struct tft_allocator *allocator; /* must outlive the session; NULL: the C library */
    uint32_t capacity; /* how many tokens fit; 0: the maximum, the model's context length less the
                          text of a named prefix */
    uint32_t n_batch;  /* tokens computed in one pass, at most; 0: 512. More takes memory, fewer
                          makes prefill slower. */
    uint32_t n_logits; /* how many of the newest tokens of a call keep their logits; 0: 1. More than
                          n_batch is TFT_ERR_ARG. */
    int n_threads;     /* 1 to 1024; 0: tft_cpu_threads(). tft_session_threads makes it fewer. */
    bool slide;        /* when the session is full, drop old tokens instead of returning
                          TFT_ERR_FULL; see below */
    const char *kv;    /* how the cache holds keys and values, see below; NULL: as the model file
                          says, or else "i8" */
    /*
     * A filter: returns whether a token stays f16 when the cache would quantize the token. NULL:
     * special tokens stay.
     * The knob `keep` limits how many tokens may stay; at the limit, the filter is no longer
     * called.
     *
     * The filter is called once for each appended token except the sinks (which stay f16 anyway),
     * oldest first, before the token is computed, by the thread that calls tft_prefill, tft_decode,
     * tft_sync or tft_rewind. `position` is the number of tokens before it, without the session's
     * prefix. The session remembers the answer, also for tokens that are computed again after a
     * rewind, with one exception: if tft_rewind makes a session that has slid compute all of its
     * tokens again, positions restart at 0, and tft_rewind asks again for each token.
     *
     * The answer must depend on position and token alone, or results depend on how tokens were fed.
     * The filter must not use the session.
     */
    bool (*keep)(void *user, uint64_t position, int32_t token);
    void *keep_user;
    const char *prefix; /* name of the prefix that the session begins with; NULL: the model's own */
    /*
     * NULL, or a callback that the thread that feeds the session calls: before each pass of 16
     * tokens or more and, if the CPU computes the pass and the pass quantizes nothing, before each
     * layer. `done` is 0..1 of the call's tokens. If the callback returns false, the call ends with
     * TFT_ERR_CANCELLED, and the session keeps the tokens of complete passes; tft_pos has their
     * number. Other threads of the session wait meanwhile, so return soon. The callback must not
     * use the session.
     */
    bool (*progress)(void *user, double done);
    void *progress_user;
    uint32_t checkpoints; /* copies of recurrent states to rewind to, at most; 0: 4. See tft_rewind.
                             Models without states ignore this field. */
    uint32_t n_hidden; /* how many of the newest tokens of a call keep their hidden vector, see
                          tft_hidden; 0: none. More than n_batch is TFT_ERR_ARG. On a device it is
                          TFT_ERR_UNSUPPORTED, as is no_logits. */
    bool no_logits;    /* compute no logits, to save their time and memory where only hidden vectors
                          are used. n_logits must be 0. */
    uint32_t lookup;   /* draft tokens that a pass may verify, at most 14: see below; 0: none */
    struct tft_session *draft; /* NULL, or an open session of a smaller model with the same
                                  vocabulary, the draft model: see below */
    bool count_ends; /* count the numbers that lie at the ends of their ranges: tft_session_ends */
    struct tft_batch *batch; /* NULL, or an open batch of the same model. The session then computes
                                in the batch's memory, also in tft_prefill and tft_sample, and takes
                                a fifth of its bytes, or less. A pass takes no more tokens and
                                threads than the batch has. The batch must outlive the session. One
                                thread at a time may use the batch and all sessions that were opened
                                with it. TFT_ERR_ARG: a batch of another model. */
    const struct tft_lora_use *loras; /* [n_loras] adapters, which are added in this order; the
                                         array is copied. Sessions with different ones share
                                         passes of tft_step, unless one is for the head.
                                         NULL: none */
    uint32_t n_loras;
};

/*
 * Speculative decoding by prompt lookup (opts.lookup; Saxena 2023). Texts repeat themselves: an
 * answer quotes the question, code repeats its variables. When tft_decode runs a pass, it looks up
 * the newest tokens in the session, takes the tokens that followed there as draft tokens, and
 * computes them in the same pass. A pass that waits for memory takes little longer with more
 * tokens. When the caller feeds a token that equals the draft token, tft_decode returns at once:
 * the logits are there. If the caller feeds another token, the draft is discarded without a trace.
 *
 * So callers only feed the tokens that they choose, by tft_sample or in another way. Results are
 * the same bits; only the time changes. The session counts accepted draft tokens, and verifies only
 * draft tokens that are likely enough. It takes memory for the logits of `lookup` more tokens, and
 * for as many copies of the states (tft_session_bytes). All copies take an eighth of weight_bytes
 * at most, so a model with large states has fewer draft tokens. A rewind in a model with sliding
 * windows, see tft_rewind, may compute all tokens again if max(n_batch, 256) - lookup tokens are
 * dropped.
 *
 * tft_step drafts only for a session that is alone in the call. `lookup` has no effect on a device,
 * and with n_hidden or no_logits.
 *
 * opts.draft, a draft model (Leviathan et al. 2023), drafts its most likely tokens where the text
 * has no match, or a less likely one. The draft session belongs to this session from
 * tft_session_open to tft_session_close: calls feed it the same tokens, and the caller neither uses
 * nor closes it meanwhile. Its memory is its own. The first call of tft_decode feeds it the whole
 * prompt; its own progress callback can end this prefill, and there is then no draft. A full draft
 * session drafts nothing, so give it the same capacity. The gain depends on how alike the two
 * models are. A model opened with its predictor (tft_model_opts.predictor) drafts by that in place
 * of a draft model; it has one more layer in the cache, and a state.
 */

/*
 * The KV cache. A new token's keys and values take a slot. The cache i8, the default, rounds each
 * key and value, also of the prefix, to int8 numbers times a float when the token comes, and
 * attention sums products of integers. With other caches slots are f16, or int8 too. In a quantized
 * cache the rule `retain` chooses the tokens that stay there. The cache quantizes the others, in
 * blocks of 16 to 256 tokens, to codes that attention reads directly. The string
 * tft_session_opts.kv names a cache:
 *
 *      PRESET                     "kivi"
 *      PRESET:KNOB=VALUE,...      "kivi:bits=4,window=64"
 *      KNOB=VALUE,...             "k=2@channel,v=1@token,retain=log2:42": other knobs as in kivi
 *
 *      preset            keys        values    tokens in slots         after the paper
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
 *      tuffet            2@mixed     2@token   the newest 128, the     2 bits on average
 *                                              first 4, and 12 special
 *                                              tokens
 *      fisher            1.5@fisher  1.5       the newest 64, the      1.5 bits on average
 *                                    @fisher   first 4, and 12 special
 *                                              tokens
 *
 * skvq needs a file that `tuffet quantize --kv` calibrated for it; "skvq:reorder=none,clip=zero"
 * runs on any file. tuffet (and every @mixed cache) needs a file in which tuffet quantize recorded
 * the importance of the channels. fisher needs a file that `tuffet quantize --kv fisher` made, and
 * runs on the CPU alone.
 *
 *      knob             value
 *      k, v             BITS@AXIS of the keys, of the values; either half may be left out
 *        BITS           1, 1.5 (three levels), 2, 3, 4, 8 or 16 (f16). By layer: "3x4/1.5x2/2" is 3
 *                       bits in the first 4 layers, 1.5 in the next 2, 2 in all others.
 *        AXIS           channel: each channel has a scale, which the tokens of a block share
 *                       token: each token has a scale, which `group` channels share
 *                       mixed: as channel, and each channel has 1 to 4 bits by its importance; BITS
 *                       is their average, any number from 1 to 4. Keys only.
 *                       fisher: each channel has 0 to 8 bits by the cost of an error, each token a
 *                       gain. Keys and values both, with the same BITS, any number from 0.25 to 4:
 *                       the average over all layers, keys and values, gains included.
 *      bits             BITS of keys and values
 *      high,low,lk,lv   asymkv alone: HIGH bits for keys in the first LK layers and values in the
 *                       first LV, LOW bits in the others: k=HIGHxLK/LOW,v=HIGHxLV/LOW
 *      group            how many tokens or channels share a scale: 16, 32, 64, 128 or 256
 *      scales           number type of the scales: f16, or f8 (E4M3)
 *      slots            number type of tokens that are not quantized, and of the prefix: f16 (i8 in
 *                       fisher), or i8, as in the cache i8. Not with a kr or vr of its own.
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
 *      retain           which tokens stay in slots
 *                       fill:N: up to N, then all of them are quantized at once
 *                       window:N: the newest N, and up to a block more
 *                       log2:N: 2 N to 3 N. Each time 3 N is reached, every other one of the older
 *                       2 N is quantized, so what stays is the sparser the older.
 *      window           the N of retain
 *      kr, vr           retain of the keys alone, of the values alone: kr=fill:128,vr=window:128
 *                       are KIVI's published code. Where the two differ, attention holds the scores
 *                       of all tokens at once, and a session does not slide with log2.
 *      sinks            the first N tokens stay in slots too (0; 4 in a session that slides and
 *                       has no prefix)
 *      keep             up to N tokens that the session's filter names stay too (0); with fill
 *                       and window. Without a filter: special tokens, as those of a chat template,
 *                       which draw attention as sinks do.
 *      prefill          N: quantize nothing until the prompt exceeds N tokens, then catch up (0).
 *                       Takes slots for N tokens.
 *                       prompt: the same until tft_prompt_end. Takes slots for the session's
 *                       capacity, and does not slide.
 *
 * A quantized token waits in its slot until enough of them fill a block. N is at most 32768
 * (prefill: 1048576), and at least 2 in fill and log2. A later knob overrides an earlier one. But
 * for i8 and slots=i8, the prefix always stays f16. Which tokens are quantized depends on their
 * positions alone, so results do not depend on how tokens were fed. docs/cache.md describes how the
 * cache works and what each preset costs.
 */

/* Checks the text of a cache, as in tft_session_opts.kv, before there is a model for it.
   TFT_ERR_ARG: no model would take it; err names the fault. TFT_OK does not say that every model
   takes it: see tft_kv_bytes. */
TFT_API enum tft_status tft_kv_check(const char *kv, struct tft_error *err);

/* Bytes that one more token takes in the cache `kv` (NULL: tft_model_info.kv), summed over the
   layers without a sliding window: its part of a block of codes, rounded up, or its slot if `kv` is
   "f16", "f32" or "i8". Once a window is full, its layer takes no more; tft_session_bytes counts
   such layers too. 0 if all layers have windows, or if `kv` is invalid or unsupported by this
   model; err then has the reason, as in tft_session_open. */
TFT_API size_t tft_kv_bytes(const struct tft_model *m, const char *kv, struct tft_error *err);

/* Bytes that tft_session_open takes from the allocator. The session takes no more later. 0 if
   tft_session_open would refuse opts; err has the reason. A session on a device also takes memory
   on the device, and from the C library and the driver for transfers. */
TFT_API size_t tft_session_bytes(const struct tft_model *m, const struct tft_session_opts *opts,
                                 struct tft_error *err);

/* Opens a session in one allocation of exactly tft_session_bytes. The caller closes *out with
   tft_session_close; the model must outlive it. On failure *out is NULL. TFT_ERR_ARG: a capacity
   beyond the model's context length, a vocab_only model, n_threads outside 0..1024, a lookup above
   14, a draft without a lookup or with another vocabulary, a prefix that the file does not have, a
   `kv` that is invalid or that the file is not calibrated for. TFT_ERR_UNSUPPORTED: an encoder
   (tft_embedder_open), or a quantized cache that does not support the head size. TFT_ERR_NOMEM: too
   little memory, here or on the device. TFT_ERR_DEVICE: the device has failed. */
TFT_API enum tft_status tft_session_open(struct tft_session **out, const struct tft_model *m,
                                         const struct tft_session_opts *opts,
                                         struct tft_error *err);

/* s may be NULL. */
TFT_API void tft_session_close(struct tft_session *s);

/*
 * Sliding (opts.slide; StreamingLLM, Xiao et al. 2023). When a full session receives another token,
 * it first drops about an eighth of its capacity: the oldest tokens after its prefix and after the
 * first 4, the attention sinks. The remaining tokens were computed with the dropped ones in view,
 * and keep their positions relative to each other. tft_pos and tft_tokens then describe the
 * remaining tokens, and tft_sync computes everything anew.
 *
 * A quantized cache keeps its sinks and drops whole blocks; log2 drops the blocks that were
 * quantized first, so tokens between them stay. If `kv` does not name sinks, a sliding session
 * without a prefix has 4 sinks, from its first token on.
 *
 * Positions continue to grow, so a model with learned positions (gpt2) cannot slide:
 * tft_session_open returns TFT_ERR_UNSUPPORTED. It returns TFT_ERR_ARG if the capacity is too small
 * to slide.
 */

/* Appends tokens[n] and computes them; keeps the logits of the last n_logits tokens and the hidden
   vectors of the last n_hidden. Allocates nothing. TFT_ERR_FULL: no room for all n tokens.
   TFT_ERR_ARG: a token outside the vocabulary, or n is 0. After TFT_ERR_FULL or TFT_ERR_ARG nothing
   has changed. TFT_ERR_DEVICE: the device has failed, and there are no logits. TFT_ERR_NUMBERS: a
   logit or a hidden vector has NaN or infinity, as in a damaged model; the tokens are in the
   session, but there are neither logits nor hidden vectors. TFT_ERR_CANCELLED: the same, with
   perhaps fewer tokens. n = 0 is valid while the session is empty, if its prefix ends in a token:
   this computes the logits after the prefix. */
TFT_API enum tft_status tft_prefill(struct tft_session *s, const int32_t *tokens, size_t n);

/* tft_prefill of one token: the step of generation. */
TFT_API enum tft_status tft_decode(struct tft_session *s, int32_t token);

/* Ends the prompt of a session with prefill=prompt: the prompt is all tokens so far. The next token
   quantizes the prompt as the cache's other knobs say, to the same bits as prefill=N with N =
   tft_pos. Until then nothing is quantized. Does nothing in other sessions, in an empty session, or
   after the prompt has ended: a second prompt is text like any other. A rewind to before the end of
   the prompt, also by tft_sync, opens the prompt again. */
TFT_API void tft_prompt_end(struct tft_session *s);

/* Makes the session hold exactly tokens[n]: keeps the longest common beginning, drops the rest, and
   computes the new suffix. At least one token is computed, for the logits after the last token.
   Errors as tft_prefill. */
TFT_API enum tft_status tft_sync(struct tft_session *s, const int32_t *tokens, size_t n);

/* Drops every token from position pos on; there are no logits until the next tft_prefill.
   TFT_ERR_ARG: pos is beyond tft_pos. A block of a quantized cache cannot be divided: if pos is not
   after the last quantization, the next tft_prefill computes all tokens before pos again. The same
   happens in a model with sliding windows, if the session is longer than its windows and more than
   max(n_batch, 256) tokens are dropped. May call the session's filter.

   In models such as lfm2, some layers have a recurrent state instead of keys and values: its size
   does not grow with the tokens, and it cannot go back. Such a session keeps copies of the states,
   called checkpoints: after each tft_prefill of 16 tokens or more, at each tft_prompt_end, and
   every 512 tokens. If there is no checkpoint at pos, the next tft_prefill computes the tokens
   between the last checkpoint before pos and pos again. Checkpoints that the cache cannot go back
   to are dropped. If all `checkpoints` are in use, a new one replaces the one with the closest
   neighbours. A slide drops all checkpoints and makes a new one; the state stays, although it has
   seen the dropped tokens. */
TFT_API enum tft_status tft_rewind(struct tft_session *s, size_t pos);

/* Returns the largest number of tokens, at most pos, that tft_rewind can go back to without a token
   to compute again: tft_pos itself, unless a rewind has lost some already. 0: none; also if the
   session depends on more than its tokens, so that another session with the same tokens need not
   have the same bits: after a slide, and with prefill=prompt. */
TFT_API size_t tft_rewind_keeps(const struct tft_session *s, size_t pos);

/* Ends the call that feeds the session with TFT_ERR_CANCELLED, where its progress callback could;
   if no call is feeding the session, the next one ends before it computes anything. Any thread, or
   a signal handler, may call tft_cancel while the session is open. */
TFT_API void tft_cancel(struct tft_session *s);

/* Computes with n threads from now on, at most as many as the session was opened with. The results
   are the same bits. TFT_ERR_ARG: n is outside, and nothing changes. */
TFT_API enum tft_status tft_session_threads(struct tft_session *s, int n);

/* The error of the last call of tft_prefill, tft_decode, tft_sync, tft_rewind, tft_session_threads
   or tft_step, with a line that names the failure, such as the device's report. Without a failure,
   the code is TFT_OK and the line is empty. Owned by the session, valid until the next call on
   it. */
TFT_API const struct tft_error *tft_session_error(const struct tft_session *s);

/* The number of tokens in the session, its capacity, and the tokens [tft_pos], which the session
   owns; they are valid until the next call on it. */
TFT_API size_t tft_pos(const struct tft_session *s);
TFT_API size_t tft_capacity(const struct tft_session *s);
TFT_API const int32_t *tft_tokens(const struct tft_session *s);

/* Accepted draft tokens since the session was opened: tokens that were fed and needed no pass of
   their own (tft_session_opts.lookup). */
TFT_API uint64_t tft_guessed(const struct tft_session *s);

/* A file that tuffet quantize made has fixed ranges for inputs of linear layers, chosen on its
   calibration text: a number of an input becomes a byte, and a number outside the range becomes 0
   or 255, the byte at that end of the range. With another text, or another kind of text, more
   numbers may lie outside than at calibration, and answers get worse. */
struct tft_ends {
    uint64_t numbers; /* of all inputs with fixed ranges that were computed since the session was
                         opened */
    uint64_t at_ends; /* of these, bytes of 0 or 255: outside, or within half a step of an end */
    uint64_t reserved[2]; /* for later versions: set to zero */
};

/* Fills *out with the counts of a session with tft_session_opts.count_ends, also from tft_step.
   Returns false, and fills in zeros, in a session without count_ends, and if a device computes
   layers of the session: a device does not count.

   Counting reads each of these bytes once more, which takes little time beside the products, and a
   cache line of memory for each thread. Counts are the same on every CPU, with any number of
   threads. Unlike results they depend on how the tokens were fed. If only some tokens of a pass
   keep logits or hidden vectors, the head and the last layers compute only these tokens, except in
   tft_step. Rejected draft tokens (tft_session_opts.lookup) count too, and so do tokens that are
   computed again after a rewind. Saved sessions and copies do not have the counts. As with all
   functions of a session, one thread at a time may call this, and not while another feeds the
   session. */
TFT_API bool tft_session_ends(const struct tft_session *s, struct tft_ends *out);

/* The share of at_ends in numbers on the calibration text, 0..1, to compare with that of a session.
   NaN if the file has no fixed ranges, or does not tell. */
TFT_API double tft_calibrated_ends(const struct tft_model *m);

/* The logits [n_vocab] after the newest token (back = 0), the one before it (1), ... of the last
   call. Owned by the session, valid until the next call on it. NULL if they were not kept: back
   must be below n_logits and below the n of that call, and the token must have come after the
   session last slid. Also NULL if they are in other processes (docs/install.md) that have failed;
   tft_session_error then says so. */
TFT_API const float *tft_logits(const struct tft_session *s, size_t back);

/* The hidden vector [n_embd] of the newest token (back = 0), the one before it (1), ... of the last
   call: the output of the model's last norm, from which the head computes the logits. It describes
   the token and the text before it. tft_embed makes embeddings of them. A file of tuffet
   quantize --rotate all has hidden vectors rotated, and without the gains of the norm. Owned by the
   session, valid until the next call on it. NULL if it was not kept, as for tft_logits: back must
   be below n_hidden. Saved sessions do not have them. */
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
 * also be fed by tft_prefill in between. Feed a prompt in chunks of 32 to 128 tokens, so that
 * sessions that generate do not wait long.
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

/* The tokens to feed to one session. */
struct tft_step {
    struct tft_session *session; /* of the batch's model; in one step only */
    const int32_t *tokens;       /* [n] as for tft_prefill */
    size_t n;
    enum tft_status status; /* out: that of tft_prefill; tft_session_error has the line */
    uint64_t reserved[2];   /* for later versions: zero */
};

/* Opens a batch. The caller closes *out with tft_batch_close; the model must outlive it. On failure
   *out is NULL. TFT_ERR_ARG: n_threads outside 0..1024, a vocab_only model, or more than 65,536
   sessions or tokens. TFT_ERR_UNSUPPORTED: an encoder. TFT_ERR_NOMEM. */
TFT_API enum tft_status tft_batch_open(struct tft_batch **out, const struct tft_model *m,
                                       const struct tft_batch_opts *opts, struct tft_error *err);

/* b may be NULL. */
TFT_API void tft_batch_close(struct tft_batch *b);

/* Feeds steps[n], in as few passes as have room for them; allocates nothing. Each step has a status
   of its own, and a failed step does not stop the others. Returns the first status that is not
   TFT_OK. TFT_ERR_ARG also: the session has another model than the batch, or is in several steps:
   all its steps are refused, and the session does not change.

   Steps share passes, except the following, which are computed as by tft_prefill:
     - a step without tokens, with more than n_batch of its session or n_tokens of the batch, or
       with more logits to keep than n_sessions of the batch
     - a step whose session slides now, or computes tokens again after a rewind
     - a step of one token that equals a draft token, or the only step, if its session has drafts
       (tft_session_opts.lookup)
     - all steps of a model on a device, or with ranges over all tokens of a pass

   A shared pass calls no progress callback, and tft_cancel then ends the next call. A pass runs on
   no more threads than the batch has, nor than any of its sessions. One thread at a time may use a
   batch, and one a session. */
TFT_API enum tft_status tft_step(struct tft_batch *b, struct tft_step *steps, size_t n);

/* --------------------------------------------------------------------- embeddings, reranking */

/*
 * An embedder makes a vector of each text, or a score of each pair of texts:
 *
 *      struct tft_embedder *e;
 *      struct tft_embedder_info info = {sizeof info};
 *      struct tft_text_tokens texts[] = {{.ids = a, .n = 9}, {.ids = b, .n = 30}};
 *      if (tft_embedder_open(&e, m, NULL, &err) != TFT_OK)
 *          return puts(err.msg), 1;
 *      tft_embedder_describe(e, &info);
 *      float *v = malloc(2 * info.width * sizeof *v);
 *      if (tft_embed(e, texts, 2, v) == TFT_OK)
 *          ...                                          // cosine: the sum of v[i] * v[width + i]
 *      tft_embedder_close(e);
 *
 * An encoder (tft_model_info.encoder) takes several texts of any lengths in a pass, without
 * padding, and keeps nothing of them. Other models make embeddings, too: there, a session inside
 * the embedder computes one text after the other. The bits of a vector depend on its text alone:
 * not on the texts beside it, their order, the size of passes, the number of threads, or the CPU.
 */
struct tft_embedder; /* memory to compute in: one thread at a time may use it */

struct tft_embedder_opts {
    size_t size;                           /* sizeof(struct tft_embedder_opts) */
    const struct tft_allocator *allocator; /* must outlive the embedder; NULL: the C library */
    enum tft_pooling pooling; /* MEAN, LAST, CLS, RANK or TOKENS; 0: as tft_model_info.pooling says,
                                 and MEAN if that is NONE */
    bool raw;          /* results as computed: vectors are not brought to length 1, and tft_rerank
                          applies no sigmoid */
    uint32_t n_dims;   /* keep the first n_dims numbers of a vector, before it is brought to length
                          1, of a model that was trained for it (Matryoshka); 0: all */
    uint32_t max_text; /* tokens of a text, at most; 0: the least of the model's context, 2048 and,
                          of an encoder, n_tokens */
    uint32_t n_tokens; /* tokens of a pass, at most 1048576; 0: 2048 of an encoder, or max_text if
                          that is more, and 512 of other models. A pass of an encoder takes whole
                          texts: TFT_ERR_ARG if n_tokens is less than max_text. More takes
                          memory */
    int n_threads;     /* 1 to 1024; 0: tft_cpu_threads() */
    /* NULL, or a callback that the thread in tft_embed or tft_rerank calls before each pass and
       before each of its layers, if the pass has 16 tokens or more. `done` is 0..1 of the call's
       tokens. If it returns false, the call ends with TFT_ERR_CANCELLED. It must not use the
       embedder. */
    bool (*progress)(void *user, double done);
    void *progress_user;
};

/* Bytes that tft_embedder_open takes from the allocator; the embedder takes no more later. 0 if
   tft_embedder_open would refuse opts; err has the reason. */
TFT_API size_t tft_embedder_bytes(const struct tft_model *m, const struct tft_embedder_opts *opts,
                                  struct tft_error *err);

/* Opens an embedder. The caller closes *out with tft_embedder_close; the model must outlive it. On
   failure *out is NULL. TFT_ERR_ARG: an option outside its limits, pooling RANK of a file without a
   classifier, a vocab_only model. TFT_ERR_UNSUPPORTED: the file names a pooling that tuffet does
   not know and opts names none, or the model is on a device. TFT_ERR_NOMEM. */
TFT_API enum tft_status tft_embedder_open(struct tft_embedder **out, const struct tft_model *m,
                                          const struct tft_embedder_opts *opts,
                                          struct tft_error *err);

/* e may be NULL. */
TFT_API void tft_embedder_close(struct tft_embedder *e);

struct tft_embedder_info {
    size_t size;              /* sizeof(struct tft_embedder_info), set by the caller */
    enum tft_pooling pooling; /* never NONE or OTHER */
    uint32_t width;   /* floats of a result: of a vector, or with RANK the number of scores of a
                         text */
    uint32_t n_types; /* token types that the model knows; 0: it has none and ignores them */
    uint32_t max_text, n_tokens; /* as the embedder uses them */
};

/* Fills the struct as far as info->size goes. */
TFT_API void tft_embedder_describe(const struct tft_embedder *e, struct tft_embedder_info *info);

/* A text, or a pair of texts with what stands between them. All special tokens are in it, as the
   model was trained: CLS and SEP, or EOS at the end if tft_model_info.add_eos. The caller keeps the
   arrays. */
struct tft_text_tokens {
    const int32_t *ids;   /* [n] */
    const uint8_t *types; /* [n] the type of each token: of a pair for BERT, 0 in the first text
                             and 1 in the second; NULL: all 0 */
    size_t n;             /* at least 1 */
    uint64_t reserved[2]; /* for later versions: zero */
};

/* Writes a result for each of texts[n] to out: [n, width]. With TFT_POOLING_TOKENS it is a vector
   for each token of each text, one text after the other: [sum of the texts' n, width]. Vectors have
   length 1 (a vector of zeros stays), except with opts.raw, RANK, or TOKENS. With RANK they are the
   scores of the classifier; of yes and no (Qwen3-Reranker), their probabilities. n may be 0.
   Allocates nothing.

   All texts are checked first: after TFT_ERR_ARG and TFT_ERR_FULL nothing has been computed. After
   other errors, the contents of out are not defined. TFT_ERR_ARG: a text without tokens, a token
   outside the vocabulary, a type that the model does not know. TFT_ERR_FULL: a text of more than
   max_text tokens. TFT_ERR_NUMBERS: a result is NaN or infinity, as in a damaged model.
   TFT_ERR_CANCELLED. */
TFT_API enum tft_status tft_embed(struct tft_embedder *e, const struct tft_text_tokens *texts,
                                  size_t n, float *out);

/* Writes how well each of pairs[n], a query and a document, belongs together to scores: [n], the
   higher the better, and from 0 to 1: the sigmoid of the classifier's one score, or the probability
   of yes. With opts.raw it is the score itself. Otherwise as tft_embed. TFT_ERR_UNSUPPORTED: the
   embedder's pooling is not RANK, or the classifier has several scores that are not yes and no. */
TFT_API enum tft_status tft_rerank(struct tft_embedder *e, const struct tft_text_tokens *pairs,
                                   size_t n, float *scores);

/* Ends the call that computes with TFT_ERR_CANCELLED, where its progress callback could; if none
   does, the next one ends before it computes anything. Any thread, or a signal handler, may call it
   while the embedder is open. */
TFT_API void tft_embedder_cancel(struct tft_embedder *e);

/* Computes with n threads from now on, at most as many as the embedder was opened with.
   TFT_ERR_ARG: n is outside, and nothing changes. */
TFT_API enum tft_status tft_embedder_threads(struct tft_embedder *e, int n);

/* The error of the last call of tft_embed, tft_rerank or tft_embedder_threads; without a failure,
   the code is TFT_OK and the line is empty. Owned by the embedder, valid until the next call on
   it. */
TFT_API const struct tft_error *tft_embedder_error(const struct tft_embedder *e);

/* ------------------------------------------------------------------------------- saved sessions */

/*
 * Save a session, and load it to continue with the same bits, also after a rewind or a slide.
 * Loading copies the cache, which takes a small part of the time that computing took:
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
 * context.) Other options may differ: n_batch, n_logits, n_threads, lookup, checkpoints, of which
 * the newest are kept, and slide, unless the cache has other sinks with it (knob sinks). The CPU
 * may be another one. docs/embedding.md says how models are told apart, docs/file-format.md has the
 * format.
 */

/* Bytes of the session if it is saved now. z: NULL, or its sampler, of which neither z->more nor
   z->min_tokens are saved. */
TFT_API size_t tft_session_save_bytes(const struct tft_session *s, const struct tft_sampler *z);

/* Saves the session, and z where it is not NULL, to data[size]. TFT_ERR_FULL: size is less than
   tft_session_save_bytes. TFT_ERR_UNSUPPORTED: the cache is on a device. TFT_ERR_ARG: the grammar
   of z has failed, so no token may come. */
TFT_API enum tft_status tft_session_save_mem(const struct tft_session *s,
                                             const struct tft_sampler *z, void *data, size_t size,
                                             struct tft_error *err);

/* Saves the session to a file. The file gets its name when it is complete and on disk; until then,
   an older file of this name stays, also after an error or a crash. A new file is the user's alone
   (mode 0600), an older one keeps its mode. Errors as tft_session_save_mem, and TFT_ERR_IO,
   TFT_ERR_NOMEM. */
TFT_API enum tft_status tft_session_save(const struct tft_session *s, const struct tft_sampler *z,
                                         const char *path, struct tft_error *err);

/* Saves the session by a function, for example into an open file: write(user, p, n) receives the
   tft_session_save_bytes bytes in order, in parts of any size, on the calling thread, and must not
   use the session. If `write` returns false, it is not called again. TFT_ERR_CANCELLED: `write` has
   returned false. Other errors as tft_session_save_mem. */
TFT_API enum tft_status tft_session_save_to(const struct tft_session *s,
                                            const struct tft_sampler *z,
                                            bool (*write)(void *user, const void *p, size_t n),
                                            void *user, struct tft_error *err);

/* Replaces the session's contents by a saved session. All data is checked before the session or *z
   changes: after an error both are unchanged. Allocates nothing without a grammar. z: NULL, or
   receives the sampler's settings and seed, if the data has them. If the data has the state of a
   grammar, z->grammar must be a state of the same grammar, and receives it; otherwise z->grammar
   does not change. TFT_ERR_FORMAT: not a saved session, or a damaged one. TFT_ERR_ARG: saved with
   another model, cache, prefix or grammar; err says which. TFT_ERR_FULL: more tokens than the
   session's capacity. TFT_ERR_UNSUPPORTED: of a later version, or the cache is on a device. */
TFT_API enum tft_status tft_session_load_mem(struct tft_session *s, struct tft_sampler *z,
                                             const void *data, size_t size, struct tft_error *err);

/* The same from a file, which must not change during the call. TFT_ERR_IO: it cannot be read. */
TFT_API enum tft_status tft_session_load(struct tft_session *s, struct tft_sampler *z,
                                         const char *path, struct tft_error *err);

/* Copies the contents of session `from` to session `to`, as saving and loading would: `to`
   continues with the same bits. To share only a beginning, tft_rewind `to` afterwards. Both are
   open sessions of one struct tft_model and match as a saved session must. Each has memory of its
   own, so later neither depends on the other. No other thread may use either during the call.
   Allocates nothing. After an error `to` is unchanged. TFT_ERR_ARG: the sessions do not match; err
   names the difference. TFT_ERR_FULL: `from` has more tokens than the capacity of `to`.
   TFT_ERR_UNSUPPORTED: the cache is on a device. */
TFT_API enum tft_status tft_session_copy(struct tft_session *to, const struct tft_session *from,
                                         struct tft_error *err);

/* ------------------------------------------------------------------------------------- grammars */

/*
 * A grammar defines the texts that a model may generate. A sampler with a grammar state chooses
 * only among tokens after which the text can still be completed, and ends the text only where the
 * grammar does:
 *
 *      struct tft_lexicon *lx;                          // once for a model
 *      struct tft_grammar *g;                           // once for a grammar
 *      struct tft_grammar_state *gs;                    // once for a text
 *      if (tft_lexicon_open(&lx, m, &err) != TFT_OK ||
 *          tft_grammar_open(&g, lx, TFT_GBNF, text, strlen(text), &err) != TFT_OK ||
 *          tft_grammar_begin(&gs, g, &err) != TFT_OK)
 *          return puts(err.msg), 1;
 *      z.grammar = gs; // tft_sample obeys and advances it
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
    TFT_GBNF,  /* rules as llama.cpp reads them; the rule root matches the text */
    TFT_REGEX, /* a regular expression that the whole text must match */
};

/* Compiles text[len]. TFT_ERR_FORMAT: an error in it; err has the line and the column.
   TFT_ERR_UNSUPPORTED: too large, a rule that begins with itself, or nothing matches.
   TFT_ERR_NOMEM; TFT_ERR_ARG. Special tokens may come only where the grammar names them, as <NAME>
   or <[ID]>. A byte that is not a token by itself cannot come. */
TFT_API enum tft_status tft_grammar_open(struct tft_grammar **out, const struct tft_lexicon *lx,
                                         enum tft_grammar_kind kind, const char *text, size_t len,
                                         struct tft_error *err);
TFT_API void tft_grammar_close(struct tft_grammar *g);

/* Makes a state at the beginning of the grammar. One thread at a time may use a state.
   TFT_ERR_NOMEM; TFT_ERR_UNSUPPORTED: there are more than 4096 ways to read the beginning of a
   text. */
TFT_API enum tft_status tft_grammar_begin(struct tft_grammar_state **out,
                                          const struct tft_grammar *g, struct tft_error *err);
TFT_API void tft_grammar_end(struct tft_grammar_state *s);

/* Copies the state `from` to `to`, a state of the same grammar: to go back later, keep a copy.
   TFT_ERR_ARG: of another grammar; `to` does not change. TFT_ERR_NOMEM: `to` has failed, as after
   tft_grammar_accept. The error of `from`, if it has failed: `to` then has failed, too. */
TFT_API enum tft_status tft_grammar_copy(struct tft_grammar_state *to,
                                         const struct tft_grammar_state *from);

/* Return whether the token may come next, and whether the text may end here. A token that ends
   generation may come where the text may end; a number that is not a token never may. Where
   tft_grammar_accept then finds too many ways to read the text, the token still may come. */
TFT_API bool tft_grammar_allows(struct tft_grammar_state *s, int32_t id);
TFT_API bool tft_grammar_can_end(const struct tft_grammar_state *s);

/* Returns whether the text must end here, so there is no token to choose. */
TFT_API bool tft_grammar_is_done(const struct tft_grammar_state *s);

/* Advances the state by a token. TFT_ERR_ARG: the token may not come; the state does not change.
   TFT_ERR_UNSUPPORTED: too many ways to read the text, as for tft_grammar_begin. After
   TFT_ERR_UNSUPPORTED or TFT_ERR_NOMEM no token may come, and tft_sample returns -1. tft_sample
   calls this for the token that it returns. */
TFT_API enum tft_status tft_grammar_accept(struct tft_grammar_state *s, int32_t id);

/* If the grammar allows only one text next, advances the state by this text and writes its tokens
   to ids[cap]: append them without asking the model. The tokens are the same as from tft_tokenize
   with TFT_CONTINUE, so the model sees the text as in training. If the grammar goes on, the model
   chooses the last token, since its bytes may begin a longer token. The model also chooses a token
   that the file suppresses, and all tokens after it. Returns the number of tokens; 0: nothing is
   forced. */
TFT_API size_t tft_grammar_forced(struct tft_grammar_state *s, int32_t *ids, size_t cap);

/* ------------------------------------------------------------------------------------- sampling */

/*
 * Settings to choose the next token: a plain value, all zero is greedy. The same seed, logits and
 * settings give the same tokens on every machine. Steps with a star need `more`:
 *
 *   1. The logits of recent tokens are divided by repeat_penalty, negative ones multiplied; once
 *      each.
 *   2. *DRY: a token that would continue a repetition loses
 *      dry_multiplier * dry_base ^ (n - dry_allowed_length) of its logit. n is the length of the
 *      longest text that ends at the session's newest token, and that came before, followed by this
 *      token; if n is below dry_allowed_length, the token loses nothing. 256 tokens is the longest
 *      text that counts. Neither the text nor the token has a breaker.
 *   3. Tokens are ranked by logit, and of equal ones by id, the smaller first. A token with a NaN
 *      logit has no rank; if all are NaN, the token is 0. A token that the file suppresses
 *      (tokenizer.ggml.suppress_tokens) has no rank either: it is never chosen, even if a grammar
 *      allows it. Nor has a token that ends generation while min_tokens is above 0, unless the
 *      grammar allows no other. Greedy takes the first and draws nothing.
 *   4. top_k keeps the first k.
 *   5. *top_n_sigma keeps logits of at least the first one's less top_n_sigma times the standard
 *      deviation of all finite logits of step 3, those too that a grammar forbids.
 *   6. *Dynamic temperature: with h, the entropy at temperature 1 of the n tokens that are left,
 *      divided by ln n, the temperature becomes low + (high - low) * h ^ dynatemp_exponent. high is
 *      temperature + dynatemp_range, low is temperature - dynatemp_range, at least 0.
 *   7. Each token has a weight, its probability relative to the first one's:
 *      exp((logit - first logit) * (1 / temperature)), in float; 1 if the logits are equal. The
 *      inverse is at most FLT_MAX. Let `sum` be the sum of the weights that are left.
 *   8. *typical_p: h is the entropy of the tokens that are left, and a token's surprise is
 *      ln(sum / weight). The tokens with a surprise nearest to h stay, of equally near ones those
 *      below h, as few as have typical_p * sum of the weights. `sum` becomes the sum of their
 *      weights.
 *   9. top_p and min_p keep the first of these tokens, at least one: top_p keeps as few as have
 *      top_p * sum of the weights, min_p keeps weights of at least min_p times the first one's.
 *      `sum` becomes the sum of the weights kept.
 *  10. *XTC: a number from [0, 1) is drawn from the seed. If it is below xtc_probability, all
 *      tokens with at least xtc_threshold * sum of the weights are dropped but the last of them.
 *  11. A number from [0, 1) is drawn from the seed, and multiplied by the sum of the weights kept.
 *      The token is the first at which the running sum of weights is above it. A token of weight
 *      0 is never drawn.
 *
 * *Mirostat 2 replaces steps 4, 5 and 8 to 10: it keeps the first tokens with a surprise of at most
 * mirostat_mu bits, at least one. The drawn token's surprise S changes the bound, which begins at
 * 2 mirostat_tau: mirostat_mu -= mirostat_eta * (S - mirostat_tau).
 */
struct tft_sampler_more {
    size_t size;                  /* sizeof(struct tft_sampler_more) */
    float dry_multiplier;         /* step 2; 0: off */
    float dry_base;               /* 0: 1.75 */
    uint32_t dry_allowed_length;  /* 0: 2 */
    uint32_t dry_last;            /* how many of the newest tokens count; 0: all */
    const int32_t *dry_breakers;  /* [n_dry_breakers] tokens, in ascending order */
    uint32_t n_dry_breakers;
    float xtc_probability;        /* step 10; 0: off */
    float xtc_threshold;          /* 0: 0.1; above 0.5: off */
    float typical_p;              /* step 8; 0 or 1: off */
    float top_n_sigma;            /* step 5; 0: off */
    float mirostat_tau;           /* bits of surprise to aim at; 0: off */
    float mirostat_eta;           /* 0: 0.1 */
    float dynatemp_range;         /* step 6; 0: off */
    float dynatemp_exponent;      /* 0: 1 */
};

struct tft_sampler {
    float temperature;    /* step 7; 0: greedy, the most likely token */
    int32_t top_k;        /* choose among the k most likely; 0 or less: all */
    float top_p;          /* choose among the most likely that together have this probability; 0 or
                             1: all; FLT_MIN: the most likely alone */
    float min_p;          /* choose among tokens with at least this part of the most likely one's
                             probability; 0: all */
    float repeat_penalty; /* divides the logits of recent tokens (multiplies negative ones); 0 or 1:
                             off */
    int32_t repeat_last;  /* how many of the newest tokens are recent; 0 or less: 64; INT32_MAX: all
                             */
    uint64_t seed;        /* state of the random generator; every draw changes it */
    struct tft_grammar_state *grammar; /* only its tokens may come, and the chosen token advances
                                          it; NULL: every token may come */
    const struct tft_sampler_more *more; /* settings of further steps; NULL: none */
    float mirostat_mu;    /* state of mirostat, which changes it; 0: before the first token */
    uint32_t min_tokens;  /* how many tokens must come before one that ends generation: each chosen
                             token lowers it. UINT32_MAX: it stays */
    uint64_t reserved[4]; /* for later versions: zero */
};

/* Chooses the next token from the logits of the session's last call. -1: there are none, as for
   tft_logits; z->reserved is not zero, or z->more has an option that this library does not know;
   z->grammar is of a model with another number of tokens; or no token may come. Allocates nothing
   without a grammar. */
TFT_API int32_t tft_sample(struct tft_sampler *z, struct tft_session *s);

/* The same from logits[n_vocab] of the caller, which do not change: for example tft_logits with a
   bias, or with a mask, -infinity for each token that may not come. (If all are -infinity, all have
   the same chance.) The session lends its memory, and its tokens for repeat_penalty and DRY; it
   need not have logits of its own. */
TFT_API int32_t tft_sample_logits(struct tft_sampler *z, struct tft_session *s,
                                  const float *logits);

struct tft_choice {
    int32_t id;
    float logprob; /* ln of its probability among all tokens, at temperature 1 */
};

/* Writes the k most likely tokens to out[k], the most likely first, of equals the smallest id, and
   returns how many: fewer than k if the vocabulary is smaller; 0 without logits. logits: [n_vocab]
   of the caller; NULL: tft_logits(s, 0), of the session's last call. Allocates nothing. */
TFT_API size_t tft_likeliest(struct tft_session *s, const float *logits, struct tft_choice *out,
                             size_t k);

/* ln of the probability of a token, such as the one that tft_sample has taken; logits as for
   tft_likeliest. The settings of a sampler play no part. NaN without logits, or if the vocabulary
   does not have the token. */
TFT_API float tft_logprob(struct tft_session *s, const float *logits, int32_t id);

struct tft_token_score {
    double logprob; /* ln of the token's probability */
    bool likeliest; /* it has the largest logit, and of tokens with this logit the smallest id */
    uint64_t reserved[2]; /* for later versions: set to zero */
};

/* Scores tokens of a text: out[i] is of the token next[i], where it comes after token i of the
   newest n tokens of the last call. For the last n tokens of a text ids[m], feed ids[m - 1], and
   next is ids + m - n. The session's threads share the work. Perplexity is exp of the mean of
   -logprob. TFT_ERR_ARG: n is 0, a token is outside the vocabulary, or there are no logits, as for
   tft_logits with back = n - 1; out does not change then. */
TFT_API enum tft_status tft_score(const struct tft_session *s, const int32_t *next, size_t n,
                                  struct tft_token_score *out);

#ifdef __cplusplus
}
#endif

#endif

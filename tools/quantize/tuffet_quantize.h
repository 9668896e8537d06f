/*
 * tuffet_quantize.h - make a W8A8 model (8-bit weights and activations) of a float model, and a
 * GGUF file of a folder of Hugging Face.
 *
 *      struct tft_quantize_opts o = {.size = sizeof o, .bits = "4"};
 *      struct tft_quantize_result *r;
 *      struct tft_error err;
 *
 *      if (tft_quantize("model.gguf", "model.w8a8.gguf", &o, &r, &err) != TFT_OK)
 *          return puts(err.msg), 1;
 *      printf("%.4f nats\n", r->check[0].divergence);
 *      tft_quantize_free(r);
 *
 * Each option is one of the command tuffet quantize, and docs/quantize.md describes its effect.
 * A message about an option begins with the command's name for it: --calib-tokens is calib_tokens.
 *
 * Functions, errors, option structs and text follow the rules on top of tuffet.h: a struct begins
 * with its size, zero is the default, err may be NULL and gets one line for a person. A function
 * that fails writes no file, leaves an existing one unchanged, and leaves nothing to free.
 *
 * Threads: a call starts its own threads and ends them. Any number of threads may call at the same
 * time with different output files. There is no global state. The callbacks run on the calling
 * thread, and must not use the library.
 *
 * Memory comes from the C library. No argument is kept after the call.
 *
 * The library has a copy of the core of its own. So models are paths here, not struct tft_model,
 * and a limit of tft_cpu_limit does not count. The file is the same on every CPU and with any
 * number of threads.
 *
 * Link with -ltuffet-quantize, or by pkg-config tuffet-quantize.
 */
#ifndef TFT_QUANTIZE_H
#define TFT_QUANTIZE_H

#include "tuffet.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------- options */

/* Hadamard transforms of activations: of attention's output; also of ffn_down's input; also of the
   residual stream. AUTO: ALL, or OUTPUT_DOWN for models with LayerNorm or a tied head. */
enum tft_quantize_rotation {
    TFT_ROTATE_AUTO,
    TFT_ROTATE_NONE,
    TFT_ROTATE_OUTPUT,
    TFT_ROTATE_OUTPUT_DOWN,
    TFT_ROTATE_ALL
};

/* How weights of 2 to 4 bits, and the blocks of 3 to 5 bits of `gguf`, are rounded: each makes up
   for the errors of others, and what that cannot serve, to nearest; to nearest; to nearest, after
   scaling weights of large inputs, which `gguf` excludes. GPTQ_ONLY: as GPTQ, but a `gguf` that it
   cannot serve at all is an error. */
enum tft_quantize_rounding {
    TFT_ROUND_GPTQ,
    TFT_ROUND_NEAREST,
    TFT_ROUND_AWQ,
    TFT_ROUND_GPTQ_ONLY
};

/* Tokens with keys and values before every sequence. AUTO: BOS, if the model begins texts with it,
   and tokens that are outliers in the text. */
enum tft_quantize_intact { TFT_INTACT_AUTO, TFT_INTACT_NONE, TFT_INTACT_BOS };

/* A search of the vocabulary for tokens of the prefix that take the outliers of activations.
   EXHAUSTIVE: every token on the whole sample. */
enum tft_quantize_cushion { TFT_CUSHION_NONE, TFT_CUSHION_AUTO, TFT_CUSHION_EXHAUSTIVE };

/* Training of the prefix: to predict the text with little 8-bit error, or to bring outputs of
   layers near the float model's. */
enum tft_quantize_tuning { TFT_TUNE_NONE, TFT_TUNE_PREDICTION, TFT_TUNE_OUTPUTS };

/* A system message whose keys and values the file stores as the prefix `name`. */
struct tft_quantize_system {
    const char *name;     /* 1 to 32 of a-z, 0-9, _ and -, not "main" */
    const char *text;     /* with a NUL, not empty */
    uint64_t reserved[2]; /* for later versions: zero */
};

/* A LoRA adapter that is added to the model's weights before they are measured. */
struct tft_quantize_lora {
    const char *path;     /* as for tft_lora_open */
    float scale;          /* 1: as trained */
    uint64_t reserved[2]; /* for later versions: zero */
};

/* What a call takes: estimates. Searches and tuning take more time. */
struct tft_quantize_plan {
    size_t size;       /* of this struct in the library */
    uint64_t disk;     /* bytes that it will need on the disk at most, from now on */
    uint64_t imported; /* bytes of the import of a folder, which stays until the end; 0: none */
    uint64_t file;     /* bytes of the new file; 0: not known before a folder is imported, as are */
    uint64_t memory;   /* bytes, */
    double operations; /* and operations on floats; a multiply-add is two */
};

/* For real numbers with a default: 0 is the default, a number below 0 is 0. */
struct tft_quantize_opts {
    size_t size;           /* sizeof(struct tft_quantize_opts) */
    const char *tokenizer; /* path of the tokenizer of a llama2.c model; NULL: none */
    int n_threads;         /* 0: tft_cpu_threads() */

    /* the weights */
    const char *bits;        /* bits of a weight with overrides, "4,attn_v=8,0-3.ffn_down=8", and
                                groups, "4g32"; NULL: 8 */
    const char *bits_search; /* a budget: choose the bits of each matrix, and if group is 0 its
                                group, within "4.25" bits of a weight or "700MB" in all; NULL: no
                                search */
    uint32_t group;          /* weights of 2 to 4 bits that share a scale: 32, 64 or 128; 0: 64, and
                                32 where the codes of a Q4_0 file are kept, or where 64 would take
                                more bytes */
    enum tft_quantize_rounding rounding;

    /* the activations */
    enum tft_quantize_rotation rotate;
    float smooth;        /* SmoothQuant's alpha, 0 .. 1; 0: off */
    const char *dynamic; /* inputs whose range is measured at run time: "all", "none", "auto", or a
                            list, "0-3,ffn_down,5.attn_q,output"; NULL: "auto" */

    /* the calibration text */
    const char *calib;      /* [n_calib] UTF-8, and a NUL: prose, or lines of JSON with
                               conversations; NULL: the model writes its text */
    size_t n_calib;
    const char *calib_name; /* of the text, for messages; if it ends in ".jsonl", the text is
                               conversations. NULL: "the calibration text" */
    bool special;           /* names of special tokens in the text become these tokens */
    uint32_t calib_tokens;  /* tokens that are used; 0: 8192 */
    uint32_t calib_window;  /* tokens of a sequence; 0: 512, 128 of an encoder, or what fits the
                               context */
    const char *format;     /* a name of tft_chat_builtin; NULL: the template of the file */
    int64_t time;           /* for templates of system messages that ask the clock: seconds since
                               1970 began, in local time; 0: midday of 1 June 2024 */

    /* the prefix */
    enum tft_quantize_intact intact;
    const char *intact_text;   /* BOS and this text; NULL: none */
    const char *intact_tokens; /* these tokens: "1,13"; NULL: none */
    uint32_t prefix_bits;      /* of a number of the prefix in the file: 16, 8 or 4; 0: 16 */
    const struct tft_quantize_system *system; /* [n_system] at most 64 */
    size_t n_system;
    enum tft_quantize_cushion cushion;
    uint32_t cushion_max;    /* tokens of the prefix, at most 8; 0: 4 */
    uint32_t cushion_sample; /* tokens of a sample; 0: 512, or what fits the context */
    float cushion_tau;       /* a token must lower the error below tau times its value; 0: 0.5 */
    float cushion_cost;      /* most nats per token that a token may cost the text; 0: 0.02 */
    enum tft_quantize_tuning tune;
    uint32_t tune_epochs; /* 0: 2 */
    float tune_rate;      /* of AdamW; 0: 0.003 for PREDICTION, 0.0003 for OUTPUTS */
    float tune_lambda;    /* weight of the 8-bit error in the loss of PREDICTION; 0: 0.01 */

    /* the KV cache */
    const char *kv;        /* the file's default cache, as in tft_session_opts.kv; NULL: none */
    const char *kv_search; /* a budget: choose the bits of each layer within "2.5" bits of a number,
                              "5632B" of a token, or "2.5@8192" at a depth; of fisher, the most
                              bits; NULL: no search */

    /* NULL, or a callback: `done` is 0..1 of the call, by the time that its steps are estimated to
       take, and never falls; `step` is the name of the current one. If the callback returns false,
       the call ends with TFT_ERR_CANCELLED. */
    bool (*progress)(void *user, const char *step, double done);
    void (*note)(void *user, const char *text); /* NULL, or told in a line what a user may not
                                                   expect */
    void *user;
    const char *ignore_keys; /* as in tft_model_opts; of a folder, members of config.json */
    /* NULL, or told before the work what it takes; of a folder also before its import, when disk
       is that of the import alone. If the callback returns false, the call ends with
       TFT_ERR_CANCELLED. */
    bool (*plan)(void *user, const struct tft_quantize_plan *plan);
    /* [n_loras] adapters. The weights that they adapt must be floats. A copy of the model with them
       lies beside the new file meanwhile; the plan is told of it as of an import. */
    const struct tft_quantize_lora *loras;
    size_t n_loras;
    /* NULL, or the type of a plain GGUF file, which is made instead of a W8A8 model: "f32", "f16",
       "bf16", "q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "q3_k", "q3_k_m", "q4_k", "q4_k_m", "q5_k",
       "q5_k_m", "q6_k"; "keep": the weights stay as they are. The first three expand quantized
       tensors; with other types a tensor of as many bits or fewer stays. Options of W8A8 files are
       errors then, among them a `kv` with calibrated clips, calibrated orders or mixed keys, and
       kv_search unless kv is fisher. The text is `calib`, or prose of the library. */
    const char *gguf;
};

/* -------------------------------------------------------------------------------------- results */

/* The loss on text that was held out from calibration. Means over its tokens. */
struct tft_quantize_loss {
    const char *group;    /* "conversation" or "text" */
    uint32_t tokens;
    double floats, file;  /* -ln p by the float model and by the new one */
    double divergence;    /* Kullback-Leibler divergence from the float model, nats */
    double same;          /* 0..1 how often the most likely token is the same */
    uint64_t reserved[2]; /* for later versions: set to zero */
};

/* An input of linear layers. */
struct tft_quantize_input {
    char name[32];        /* "blk.3.ffn_down"; "output" */
    bool per_token;       /* its range is measured at run time for each token; false: static */
    int32_t zero;         /* of a static range: x = scale (byte - zero) */
    float scale;
    float min, max;       /* over the calibration text */
    double error;         /* |x - q(x)|^2 / |x|^2 over it, with a static range */
    uint64_t reserved[2]; /* for later versions: set to zero */
};

struct tft_quantize_result {
    size_t size;           /* of this struct in the library */
    size_t n_tokens;       /* tokens of calibration, */
    uint32_t window;       /* in sequences of `window` */
    uint32_t n_prefix;
    const int32_t *prefix; /* [n_prefix] tokens of the file's prefix */
    const struct tft_quantize_loss *check; /* [n_check] empty if the text is too short */
    size_t n_check;
    const struct tft_quantize_input *input; /* [n_input] */
    size_t n_input;
    const char *bits; /* the result of bits_search, for tft_quantize_opts.bits; NULL: no search */
    const char *kv;   /* the result of kv_search, for tft_quantize_opts.kv; NULL: no search */
    const char *report; /* lines for people, as the command prints them */
    const char *json;   /* an object of JSON with all results, as the command's --json prints it */
};

/* ------------------------------------------------------------------------------------ functions */

/*
 * Makes a W8A8 model of the model at the path `model`, a GGUF file, a llama2.c file, or a folder of
 * Hugging Face, and writes the file `out`, which replaces an existing file once it is complete.
 * opts may be NULL. *result, unless result is NULL, is for tft_quantize_free.
 *
 * TFT_ERR_ARG: an option is invalid, or does not fit the model or the text. TFT_ERR_IO,
 * TFT_ERR_FORMAT, TFT_ERR_UNSUPPORTED: as tft_model_open; the model is not one to quantize; or the
 * file cannot be written. TFT_ERR_NOMEM. TFT_ERR_CANCELLED: by opts->progress. A cancelled search
 * for a cushion leaves OUT.cushion, from which the same call resumes.
 */
TFT_API enum tft_status tft_quantize(const char *model, const char *out,
                                     const struct tft_quantize_opts *opts,
                                     struct tft_quantize_result **result, struct tft_error *err);

/* r may be NULL. */
TFT_API void tft_quantize_free(struct tft_quantize_result *r);

/* New type of the matrices; vectors and norms become f32. KEEP: that of the folder; of quantized
   matrices, the first that holds them exactly; and with inputs of int8, a W8A8 file. */
enum tft_import_type { TFT_IMPORT_KEEP, TFT_IMPORT_F16, TFT_IMPORT_BF16, TFT_IMPORT_F32 };

struct tft_import_opts {
    size_t size; /* sizeof(struct tft_import_opts) */
    enum tft_import_type type;
    bool no_tokenizer; /* leave the tokenizer out */
    bool (*progress)(void *user, const char *step, double done); /* as in tft_quantize_opts */
    void *user;
    const char *ignore_keys; /* members of config.json that count as absent, separated by commas;
                                NULL: none */
    void (*note)(void *user, const char *text); /* as in tft_quantize_opts */
};

/* Makes the GGUF file `out` of a folder of Hugging Face. opts may be NULL. *bytes, unless bytes is
   NULL, becomes the size of all tensors. TFT_ERR_FORMAT: a tensor is missing, unknown, or of
   another shape. TFT_ERR_UNSUPPORTED: an architecture or a tokenizer that tuffet does not know, or
   a build without JSON. TFT_ERR_IO, TFT_ERR_NOMEM, TFT_ERR_CANCELLED. */
TFT_API enum tft_status tft_import(const char *folder, const char *out,
                                   const struct tft_import_opts *opts, uint64_t *bytes,
                                   struct tft_error *err);

#ifdef __cplusplus
}
#endif

#endif

/* The options that several commands have for models and sessions, and functions that open them. */
#define _POSIX_C_SOURCE 200809L
#include "cli.h"
#include "power.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "power.h"
#include "resident.h"
#include "verbose.h"

struct cli_model_options cli_model_options;
struct cli_session_options cli_session_options = {.lookup = 14};

const struct cli_option cli_tokenizer_option_list[] = {
    {0, "tokenizer", CLI_TEXT, &cli_model_options.tokenizer, "FILE",
     "read the vocabulary of a llama2.c model from FILE, its tokenizer.bin"},
    {0},
};

#define CPU_OPTION                                                                                 \
    {0, "cpu", CLI_TEXT, &cli_model_options.cpu,                                                   \
     "NAME:c|avx2|avxvnni|avx512|avx512vnni|amx|neon|dotprod|i8mm|sme|v",                          \
     "use the kernels of this instruction set: c, avx2, avxvnni, avx512, avx512vnni, amx, "        \
     "neon, dotprod, i8mm, sme or v (default the best that the CPU has)"}

const struct cli_option cli_cpu_option_list[] = {CPU_OPTION, {0}};

#define KEY_OPTION                                                                                 \
    {0, "ignore-key", CLI_TEXT, &cli_model_options.ignore_keys, "NAME",                            \
     "open MODEL as if it did not have the value NAME, which tuffet does not support; several "    \
     "names have commas between them"}

const struct cli_option cli_key_option_list[] = {KEY_OPTION, {0}};

const struct cli_option cli_model_option_list[] = {
    {0, "weights", CLI_WORD, &cli_model_options.weights, "stored|f32|f16|bf16",
     "hold quantized weights as stored in the file, or expand them"},
    CPU_OPTION,
    {0, "device", CLI_TEXT, &cli_model_options.device, "NAME:cpu|cuda|mpi",
     "compute on the CPU (cpu), on a GPU (cuda, or cuda:1 for the second) or in the processes of "
     "mpirun (mpi); without a GPU, print a warning and use the CPU (default cpu, or mpi under "
     "mpirun)"},
    {0, "gpu-layers", CLI_COUNT, &cli_model_options.gpu_layers, "N",
     "compute only the last N layers and the head on the GPU (default all)"},
    {0, "experts-mem", CLI_BYTES, &cli_model_options.experts_bytes, "SIZE",
     "keep at most SIZE bytes of experts in memory, and read the others from MODEL, a file of pack "
     "or quantize, when they are needed (default all, or as many as there is memory for)"},
    {0, "preload", CLI_FLAG, &cli_model_options.preload, NULL,
     "read all of MODEL at the start, with progress: from a slow disk the first tokens then come "
     "at once"},
    {0, "mlock", CLI_FLAG, &cli_model_options.lock, NULL,
     "keep MODEL in memory: the system neither swaps it out nor drops it for other files"},
    KEY_OPTION,
    {0},
};

const struct cli_option cli_thread_option_list[] = {
    {'t', "threads", CLI_COUNT, &cli_model_options.threads, "N",
     "use N threads (default one for each fast core that the process may use)"},
    {0},
};

const struct cli_option cli_session_option_list[] = {
    {'c', "ctx", CLI_COUNT, &cli_session_options.ctx, "N",
     "context length in tokens (default that of the model)"},
    {0, "kv", CLI_TEXT, &cli_session_options.kv, CLI_KV_ARG,
     "type of the KV cache: f16, f32, i8, or a quantized one: tuffet, kivi, logquant, "
     "partial-logquant, asymkv, skvq, fisher or rtn, also with knobs, \"kivi:bits=4\" (default the "
     "cache that MODEL names, or i8)"},
    {0},
};

const struct cli_option cli_prefix_option_list[] = {
    {0, "prefix", CLI_TEXT, &cli_session_options.prefix, "NAME",
     "begin with the prefix NAME of MODEL, which tuffet inspect lists; main: the prefix without a "
     "name (default the prefix that holds most of the prompt)"},
    {0},
};

const struct cli_option cli_lookup_option_list[] = {
    {0, "lookup", CLI_NUMBER, &cli_session_options.lookup, "N",
     "guess up to N next tokens, at most 14, where the text repeats itself; 0: none. The output "
     "stays the same, in less time"},
    {0, "draft", CLI_TEXT, &cli_session_options.draft, "MODEL",
     "guess next tokens with MODEL too, a smaller model with the same vocabulary; mtp: with the "
     "block of the model's own file that predicts further tokens"},
    {0},
};

static void show_expanding(void *user, double done)
{
    cli_progress_at(user, done);
}

int cli_check_kv(const char *text)
{
    struct tft_error err;
    return tft_kv_check(text, &err) == TFT_OK ? CLI_OK : cli_usage("--kv: %s", err.msg);
}

int cli_limit_cpu(void)
{
    static bool limited; /* tft_cpu_limit is for the time before the first model is open */
    const char *cpu = cli_model_options.cpu;
    if (limited)
        return CLI_OK;
    limited = !cpu || tft_cpu_limit(cpu) == TFT_OK;
    if (!limited)
        return cli_fail("--cpu: this CPU has no kernels \"%s\"; the best that it has are %s", cpu,
                        tft_cpu_name());
    return CLI_OK;
}

/* The numbers that Open MPI, or MPICH and its kin, give to the processes of mpirun; or
   `otherwise`. */
static long of_mpirun(const char *open_mpi, const char *mpich, long otherwise)
{
    const char *text = getenv(open_mpi);
    text = text ? text : getenv(mpich);
    return text ? strtol(text, NULL, 10) : otherwise;
}

static const char *device(void)
{
    if (cli_model_options.device)
        return cli_model_options.device;
    return of_mpirun("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", 1) > 1 ? "mpi" : NULL;
}

/* What to install or build if a plug-in, or a library that it needs, is missing: the linker's
   message names the file. */
static const char *remedy(const char *message)
{
    static const char *const known[][2] = {
        {"libtuffet-mpi.so: cannot open", " (to have it, build with Debian's libopenmpi-dev)"},
        {"libtuffet-cuda.so: cannot open", " (to have it, build with nvcc and -Dcuda=enabled)"},
        {"libmpi.so", " (Debian: openmpi-bin)"},
        {"libmpich.so", " (Debian: mpich)"},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strstr(message, known[i][0]))
            return known[i][1];
    return "";
}

/* Process 0 is the program. The others have computed for it and end, or process 0 reports their
   errors. A process that fails before they meet, for example at a missing file, prints its error
   itself. */
static int opened_by_mpi(enum tft_status status, const struct tft_error *err)
{
    long process = of_mpirun("OMPI_COMM_WORLD_RANK", "PMI_RANK", 0);
    if (status == TFT_ERR_CANCELLED)
        exit(CLI_OK);
    if (status != TFT_OK && process)
        return cli_fail("process %ld: %s%s", process, err->msg, remedy(err->msg));
    return status == TFT_OK ? CLI_OK : cli_fail("%s%s", err->msg, remedy(err->msg));
}

/* Whether the draft tokens are those of the model's own predictor. A file of this name is ./mtp. */
static bool drafts_itself(void)
{
    return cli_session_options.draft && strcmp(cli_session_options.draft, "mtp") == 0;
}

/* What to do if the file is not there. The error may also be about another file. */
static const char *missing(const char *path, const struct tft_error *err)
{
    return err->code == TFT_ERR_IO && err->os == ENOENT && access(path, F_OK) != 0
               ? " (tuffet list shows the models on this machine)"
               : "";
}

static int open_model(struct tft_model **m, const char *path, bool vocab_only)
{
    const struct cli_model_options *o = &cli_model_options;
    struct cli_progress progress;
    struct tft_error err;
    if (cli_check_kv(cli_session_options.kv) != CLI_OK)
        return CLI_USAGE;
    if (cli_limit_cpu() != CLI_OK)
        return CLI_FAILED;
    if (cli_check_model_path(path, false) != CLI_OK)
        return CLI_FAILED;

    cli_progress_begin(&progress, "preparing weights");
    struct tft_model_opts opts = {
        .size = sizeof opts,
        .allocator = verbose_allocator(),
        .tokenizer = o->tokenizer,
        .weights = (enum tft_weights)o->weights,
        .vocab_only = vocab_only,
        .n_threads = (int)o->threads,
        .progress = show_expanding,
        .progress_user = &progress,
        .device = vocab_only ? NULL : device(),
        .gpu_layers = o->gpu_layers,
        .ignore_keys = o->ignore_keys,
        .experts_bytes = o->experts_bytes,
        .predictor = drafts_itself(),
    };
    enum tft_status status = tft_model_open(m, path, &opts, &err);
    if (opts.device && strcmp(opts.device, "mpi") == 0) {
        cli_progress_end(&progress);
        return opened_by_mpi(status, &err);
    }
    if (status == TFT_ERR_DEVICE) {
        cli_progress_end(&progress);
        fprintf(stderr, "tuffet: %s%s: using the CPU\n", err.msg, remedy(err.msg));
        opts.device = NULL;
        status = tft_model_open(m, path, &opts, &err);
    }
    cli_progress_end(&progress);
    return status == TFT_OK ? CLI_OK : cli_fail("%s%s", err.msg, missing(path, &err));
}

int cli_open_model(struct tft_model **m, const char *path, bool vocab_only)
{
    int status = open_model(m, path, vocab_only);
    if (status != CLI_OK)
        return status;
    status = vocab_only ? CLI_OK : resident_begin(path);
    if (status == CLI_OK) {
        verbose_model(*m, path);
        return CLI_OK;
    }
    tft_model_close(*m);
    *m = NULL;
    return status;
}

bool cli_find_prefix(const struct tft_model *m, const char *name, struct tft_prefix_info *info)
{
    *info = (struct tft_prefix_info){.size = sizeof *info};
    for (size_t i = 0; name && tft_prefix_describe(m, i, info) == TFT_OK; i++)
        if (strcmp(info->name, name) == 0)
            return true;
    return false;
}

/* The tft_sync call of cli_sync: `share` of its work, after `from` of it. */
static struct {
    struct cli_progress *progress; /* NULL: without progress */
    double from, share;
} reading;

static bool keep_reading(void *user, double done)
{
    (void)user;
    if (!reading.progress)
        return true;
    cli_progress_at(reading.progress, reading.from + reading.share * done);
    return !cli_interrupted();
}

/* The model of --draft; NULL: none, or the predictor. */
static struct tft_model *draft_model;

/* Ctrl-C ends the draft model's computation, which is long if it reads the prompt. */
static bool keep_drafting(void *user, double done)
{
    (void)user, (void)done;
    return !cli_interrupted();
}

/* A session of the draft model for a session of m with at most `capacity` tokens; 0: as many as m
   allows. */
static enum tft_status open_draft_session(struct tft_session **s, const struct tft_model *m,
                                          uint32_t capacity, struct tft_error *err)
{
    struct tft_model_info info = {.size = sizeof info}, draft = {.size = sizeof draft};
    tft_model_describe(m, &info);
    tft_model_describe(draft_model, &draft);
    uint32_t most = draft.n_ctx - draft.n_prefix;
    capacity = capacity ? capacity : info.n_ctx;
    struct tft_session_opts o = {.size = sizeof o,
                                 .n_threads = (int)cli_model_options.threads,
                                 .capacity = capacity < most ? capacity : most,
                                 .progress = keep_drafting};
    return tft_session_open(s, draft_model, &o, err);
}

/* Whether m takes draft tokens of the draft model. */
static int check_draft(const struct tft_model *m)
{
    struct tft_session *s = NULL;
    struct tft_error err;
    enum tft_status status = open_draft_session(&s, m, 1, &err);
    struct tft_session_opts o = {.size = sizeof o, .capacity = 1, .lookup = 1, .draft = s};
    bool takes = status == TFT_OK && tft_session_bytes(m, &o, &err) > 0;
    tft_session_close(s);
    return takes ? CLI_OK : cli_fail("--draft: %s", err.msg);
}

int cli_open_draft(const struct tft_model *m)
{
    struct tft_model_opts o = {.size = sizeof o,
                               .tokenizer = cli_model_options.tokenizer,
                               .n_threads = (int)cli_model_options.threads};
    struct tft_error err;
    if (!cli_session_options.draft)
        return CLI_OK;
    if (!cli_session_options.lookup)
        return cli_usage("--draft makes draft tokens, and --lookup 0 allows none: leave one out");
    if (drafts_itself())
        return CLI_OK;
    if (tft_model_open(&draft_model, cli_session_options.draft, &o, &err) != TFT_OK)
        return cli_fail("--draft: %s", err.msg);
    return check_draft(m);
}

void cli_close_draft(void)
{
    tft_model_close(draft_model);
    draft_model = NULL;
}

uint32_t cli_context(uint32_t n) { return cli_session_options.ctx ? cli_session_options.ctx : n; }

int cli_open_session(struct tft_session **s, const struct tft_model *m, struct tft_session_opts *o)
{
    struct tft_error err;
    struct tft_prefix_info prefix;
    o->size = sizeof *o;
    o->n_threads = (int)cli_model_options.threads;
    o->kv = o->kv ? o->kv : cli_session_options.kv;
    o->progress = keep_reading;
    cli_add_loras(o);
    o->capacity = o->capacity ? o->capacity : cli_session_options.ctx;
    /* the text is a part of the context that the user asks for */
    if (o->capacity && cli_find_prefix(m, o->prefix, &prefix)) {
        if (o->capacity <= prefix.n_tokens)
            return cli_fail("a context of %u tokens has no room after the prefix %s, which has "
                            "%u: raise --ctx",
                            o->capacity, prefix.name, prefix.n_tokens);
        o->capacity -= prefix.n_tokens;
    }
    enum tft_status status = TFT_OK;
    if (o->lookup && draft_model)
        status = open_draft_session(&o->draft, m, o->capacity, &err);
    if (status == TFT_OK)
        status = tft_session_open(s, m, o, &err);
    if (status == TFT_OK) {
        verbose_session(*s, m, o);
        return CLI_OK;
    }
    tft_session_close(o->draft);
    o->draft = NULL;
    return cli_fail("%s", err.msg);
}

int cli_fail_session(const struct tft_session *s)
{
    return cli_fail("%s", tft_session_error(s)->msg);
}

const char *cli_prefix(const struct tft_model *m, const int32_t *ids, size_t n)
{
    const char *name = cli_session_options.prefix;
    return !name ? tft_prefix_best(m, ids, n) : strcmp(name, "main") == 0 ? NULL : name;
}

size_t cli_most_tokens(size_t len) { return 2 * len + 2; }

int32_t *cli_tokenize(const struct tft_model *m, const char *text, size_t len, unsigned flags,
                      size_t *n)
{
    size_t room = cli_most_tokens(len);
    int32_t *ids = malloc((room + 1) * sizeof *ids); /* scorer_tokenize adds BOS */
    enum tft_status status = ids ? tft_tokenize(m, text, len, flags, ids, room, n) : TFT_ERR_NOMEM;
    if (status == TFT_OK)
        return ids;
    free(ids);
    if (status == TFT_ERR_UNSUPPORTED)
        cli_fail("the model has no tokenizer; a llama2.c model needs --tokenizer FILE");
    else
        cli_fail("cannot tokenize the text: %s", tft_status_text(status));
    return NULL;
}

size_t cli_held(const struct tft_session *s, const int32_t *ids, size_t n)
{
    size_t held = 0;
    while (held < tft_pos(s) && held + 1 < n && tft_tokens(s)[held] == ids[held])
        held++;
    return held;
}

enum tft_status cli_sync(struct tft_session *s, const int32_t *ids, size_t n)
{
    const size_t step = power_is_shared() ? 32 : 256;
    struct cli_progress progress;
    if (!n) { /* the logits after the prefix */
        tft_rewind(s, 0);
        return tft_prefill(s, NULL, 0);
    }
    size_t held = cli_held(s, ids, n);
    cli_progress_begin(&progress, "reading the prompt");
    progress.soon = true;
    reading.progress = &progress;
    enum tft_status status = TFT_OK;
    for (size_t end = held; status == TFT_OK && end < n && !cli_interrupted();) {
        size_t from = end;
        uint64_t start = cli_ns();
        end = n - end > step ? end + step : n;
        reading.from = (double)(from - held) / (double)(n - held);
        reading.share = (double)(end - from) / (double)(n - held);
        status = tft_sync(s, ids, end);
        power_rest(start);
    }
    reading.progress = NULL;
    cli_progress_end(&progress);
    return status == TFT_ERR_CANCELLED ? TFT_OK : status;
}

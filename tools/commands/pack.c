/* tuffet pack: lays out the quantized matrices of a GGUF file as the kernels read them. */
#include <inttypes.h>

#include "models/open.h"
#include "tools/commands/commands.h"
#include "tools/pack/pack.h"

static struct {
    const char *out;
    bool json;
} opt;

static const struct cli_option options[] = {
    {'o', "output", CLI_TEXT, &opt.out, "FILE", "write the packed model to FILE"},
    {0, "json", CLI_FLAG, &opt.json, NULL,
     "print one JSON object: seconds, tensors, packed (how many of them are), bytes"},
    {0},
};

static bool progress(void *user, double done)
{
    cli_progress_at(user, done);
    return !cli_interrupted();
}

static int write_packed(const struct tft_model *m)
{
    struct cli_progress bar;
    struct pack_opts o = {
        .n_threads = (int)cli_model_options.threads, .progress = progress, .user = &bar};
    struct pack_result r;
    struct tft_error err;
    uint64_t start = cli_ns();
    cli_progress_begin(&bar, "packing");
    enum tft_status status = pack(m, opt.out, &o, &r, &err);
    cli_progress_end(&bar);
    if (status != TFT_OK)
        return cli_fail("%s", err.msg);
    if (r.stopped)
        return CLI_INTERRUPTED;
    if (opt.json)
        printf("{\"seconds\":%.3f,\"tensors\":%zu,\"packed\":%zu,\"bytes\":%" PRIu64 "}\n",
               (double)(cli_ns() - start) / 1e9, r.tensors, r.packed, r.bytes);
    return CLI_OK;
}

static int run_pack(const char *path)
{
    struct tft_model *m;
    struct tft_error err;
    if (!opt.out)
        return cli_usage("give the file to write: -o FILE");
    if (cli_check_output(opt.out, path) != CLI_OK)
        return CLI_FAILED;
    cli_catch_interrupts();
    struct tft_model_opts o = {.size = sizeof o,
                               .n_threads = (int)cli_model_options.threads,
                               .ignore_keys = cli_model_options.ignore_keys};
    if (tft_model_open_unexpanded(&m, path, &o, &err) != TFT_OK)
        return cli_fail("%s", err.msg);
    int status = write_packed(m);
    tft_model_close(m);
    return status;
}

const struct cli_command command_pack = {
    .name = "pack",
    .operand = "MODEL",
    .summary = "pack quantized weights beforehand, so that they run at once",
    .groups =
        (const struct cli_option_group[]){
            {"Output", options},
            {"Model and machine", cli_key_option_list},
            {NULL, cli_thread_option_list},
            {0},
        },
    .notes =
        "MODEL is a GGUF file with quantized weights. To compute with them, tuffet lays their "
        "codes out anew each time that it opens MODEL, which takes time and memory. FILE has them "
        "in that layout: it is mapped, runs at once, and processes share its memory. Nothing is "
        "lost or rounded, and results have the same bits; FILE is about as large as MODEL.\n"
        "\n"
        "Keep MODEL: FILE cannot be expanded to floats, quantized, or read by other programs.\n",
    .examples = "tuffet pack model.q4_k_m.gguf -o model.packed.gguf\n"
                "tuffet run model.packed.gguf -p \"Once upon a time\"\n",
    .run = run_pack,
};

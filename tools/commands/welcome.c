#include "welcome.h"

#include <string.h>

#include "tools/cli/cli.h"
#include "tools/pull/found.h"

enum { MOST_SHOWN = 5 };

struct models {
    size_t n;
    char next[512]; /* the first model that a shell takes without quotes; "": none */
};

static void show(void *user, const struct found *f)
{
    struct models *m = user;
    size_t len = strlen(f->model);
    if (!*m->next && len < sizeof m->next && !f->model[strcspn(f->model, " '\"$`\\()<>|&;*?!#~")])
        memcpy(m->next, f->model, len + 1);
    if (m->n++ >= MOST_SHOWN)
        return;
    printf("  %7.2f GB  ", (double)f->bytes / 1e9);
    cli_put_escaped(stdout, f->model, len);
    putchar('\n');
}

static int show_models(struct models *m, const char *shipped)
{
    puts("\nModels on this machine:");
    int status = found_each(show, m);
    if (m->n > MOST_SHOWN)
        printf("  and %zu more: tuffet list\n", m->n - MOST_SHOWN);
    if (shipped)
        puts("     4 MB     stories2M, which ships with the program: stories for children");
    if (!m->n && !shipped)
        puts("  none");
    return status;
}

static void show_next(const struct models *m, const char *shipped)
{
    puts("\nNext:");
    if (*m->next) {
        fputs("  tuffet chat ", stdout);
        cli_put_escaped(stdout, m->next, strlen(m->next));
        putchar('\n');
        return;
    }
    if (shipped)
        puts("  tuffet demo");
    if (TUFFET_PULL)
        puts("  tuffet chat hf:Qwen/Qwen3-0.6B-GGUF        fetches 0.6 GB, and talks");
    else
        puts("  tuffet chat FILE.gguf        a chat model that you have downloaded");
}

int welcome(void)
{
    const char *shipped = cli_find_shipped_model();
    struct models m = {0};
    printf("tuffet %s runs small language models (here: %s, %d threads).\n\n", tft_version(),
           tft_cpu_name(), tft_cpu_threads());
    puts("  tuffet demo                       a tour in a minute\n"
         "  tuffet chat MODEL                 hold a conversation\n"
         "  tuffet run MODEL -p TEXT          continue a text");
    if (TUFFET_SERVE)
        puts("  tuffet serve MODEL                a chat in the browser, and OpenAI's API");
    puts("  tuffet quantize MODEL -o FILE     make a smaller and faster model");
    if (TUFFET_PULL)
        puts("  tuffet pull USER/REPO             fetch a model from Hugging Face");
    puts("  tuffet help                       all commands");
    int status = show_models(&m, shipped);
    if (status == CLI_OK)
        show_next(&m, shipped);
    return status;
}

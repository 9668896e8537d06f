/* Continues a text, with a model in flash, on a serial port. */
#include <stdio.h>
#include <string.h>

#include "tuffet.h"

/* ---- the machine: start.S and flash.ld */

extern const char model[], model_end[];
extern char arena_begin[], arena_end[], stack_end[];
void power_off(void);
void fault(uint64_t syndrome, uint64_t address);

static void print(const char *text, size_t n)
{
    volatile uint32_t *const uart = (volatile uint32_t *)0x09000000; /* a PL011 */
    for (size_t i = 0; i < n; i++) {
        while (uart[0x18 / 4] & 1 << 5) /* its queue is full */
            ;
        *uart = (unsigned char)text[i];
    }
}

static void print_text(const char *text)
{
    print(text, strlen(text));
}

static void print_line(const char *what, uint64_t n)
{
    char line[128];
    print(line, (size_t)snprintf(line, sizeof line, "# %s: %lu\n", what, (unsigned long)n));
}

/* An exception: nothing here expects one. */
void fault(uint64_t syndrome, uint64_t address)
{
    print_line("fault, syndrome", syndrome);
    print_line("fault, address", address);
    power_off();
}

/* ---- memory: the RAM after the stack. The last taken block is given back first, or stays. */

struct arena {
    char *top, *most; /* the first free byte; the highest that it has been */
};

static void *take(void *user, size_t size, size_t align)
{
    struct arena *a = user;
    size_t lead = -(uintptr_t)a->top & (align - 1), left = (size_t)(arena_end - a->top);
    if (lead > left || size > left - lead)
        return NULL;
    char *p = a->top + lead;
    a->top = p + size;
    a->most = a->top > a->most ? a->top : a->most;
    return p;
}

static void give_back(void *user, void *ptr, size_t size)
{
    struct arena *a = user;
    if (ptr && (char *)ptr + size == a->top)
        a->top = ptr;
}

/* ---- the text */

static enum tft_status tell(const struct tft_model *m, struct tft_session *s)
{
    static const char prompt[] = "Once upon a time";
    static char piece[TFT_TEXT_MAX];
    int32_t ids[64], id;
    size_t n;
    enum tft_status status = tft_tokenize(m, prompt, sizeof prompt - 1, TFT_ADD_BOS, ids, 64, &n);
    if (status == TFT_OK)
        status = tft_prefill(s, ids, n);
    print_text(prompt);
    struct tft_sampler greedy = {0};
    struct tft_text text = {.started = true};
    while (status == TFT_OK && !tft_token_ends(m, id = tft_sample(&greedy, s))) {
        print(piece, tft_text_push(&text, m, id, piece));
        status = tft_decode(s, id);
    }
    print(piece, tft_text_push(&text, m, -1, piece));
    print_text("\n");
    return status == TFT_ERR_FULL ? TFT_OK : status;
}

int main(void)
{
    struct arena arena = {arena_begin, arena_begin};
    const struct tft_allocator allocator = {take, give_back, &arena};
    const struct tft_model_opts model_opts = {
        .size = sizeof model_opts,
        .allocator = &allocator,
    };
    const struct tft_session_opts session_opts = {
        .size = sizeof session_opts,
        .allocator = &allocator,
        .n_batch = 16,
    };
    struct tft_model *m = NULL;
    struct tft_session *s = NULL;
    struct tft_error err;
    if (tft_cpu_limit(KERNELS) != TFT_OK) {
        print_text("# this library has no kernels " KERNELS "\n");
        return 1;
    }
    enum tft_status status =
        tft_model_open_mem(&m, model, (size_t)(model_end - model), &model_opts, &err);
    size_t of_model = (size_t)(arena.top - arena_begin);
    if (status == TFT_OK)
        status = tft_session_open(&s, m, &session_opts, &err);
    if (status != TFT_OK) {
        print_text("# ");
        print_text(err.msg);
        print_text("\n");
        return 1;
    }
    size_t opened = (size_t)(arena.top - arena_begin);
    status = tell(m, s);
    if (status != TFT_OK)
        print_line(tft_status_text(status), status);
    print_line("arena, the model", of_model);
    print_line("arena, the session", opened - of_model);
    print_line("arena, at most", (size_t)(arena.most - arena_begin));
    print_text("# kernels: ");
    print_text(tft_cpu_name());
    print_text("\n");
    tft_session_close(s);
    tft_model_close(m);
    return 0;
}

#include "other_model.h"

#include <string.h>

/* What belongs to the model that a conversation has from its start. */
static int check(const struct conversation *c)
{
    const char *draft = cli_session_options.draft, *with = NULL;
    if (c->tools.list)
        with = "--tools";
    else if (draft && strcmp(draft, "mtp") != 0)
        with = "--draft";
    else if (cli_asked_loras())
        with = "--lora";
    else if (context_named_prefix())
        with = "--prefix";
    return with ? cli_fail("/model: not with %s, which goes with the first model", with) : CLI_OK;
}

/* The template of the new model, with the options of the conversation. */
static int choose_template(const struct conversation *c, struct context *x, const char *path)
{
    bool quiet = c->x.o.no_think && c->think_budget;
    x->format = template_choose(x->m, path, false);
    if (!x->format)
        return CLI_FAILED;
    bool thinks = template_thinks(x->format);
    if (quiet && !thinks)
        return cli_fail("--no-think: the chat template %s does not use enable_thinking",
                        template_name(x->format));
    x->o.no_think = thinks && (quiet || !c->think_budget);
    return CLI_OK;
}

/* The random generator goes on. */
static int choose_sampling(struct conversation *c, const struct tft_model *m)
{
    uint64_t state = c->sampler.seed;
    cli_close_sampling();
    int status = cli_open_sampling(m);
    if (status != CLI_OK)
        cli_open_sampling(c->x.m);
    c->sampler = cli_sampler();
    c->sampler.seed = state;
    return status;
}

/* Closes all of the model before. */
static void take(struct conversation *c, struct tft_model *m, struct context *x, struct form *form)
{
    c->x.said = (struct messages){0}; /* which x has */
    context_close(&c->x);
    form_close(&c->form);
    tft_model_close(c->model);
    c->model = m;
    c->x = *x;
    c->form = *form;
    c->calls = -1;
    c->last = (struct conversation_answer){0};
}

static void close_new(struct tft_model *m, struct context *x, struct form *form)
{
    x->said = (struct messages){0}; /* the conversation's */
    context_close(x);
    form_close(form);
    tft_model_close(m);
}

int other_model(struct conversation *c, const char *path)
{
    struct tft_model *m = NULL;
    struct form form = {0};
    int status = check(c);
    if (status == CLI_OK && c->find_model)
        status = c->find_model(&path);
    if (status == CLI_OK)
        status = cli_open_model(&m, path, false);
    struct context x = {.m = m, .o = c->x.o, .said = c->x.said};
    if (status == CLI_OK)
        status = choose_template(c, &x, path);
    if (status == CLI_OK)
        status = form_open(&form, m);
    if (status == CLI_OK)
        status = context_reopen(&x);
    if (status == CLI_OK)
        status = choose_sampling(c, m);
    if (status != CLI_OK) {
        close_new(m, &x, &form);
        return CLI_FAILED;
    }
    take(c, m, &x, &form);
    fprintf(stderr, "%s: goes on with %zu messages, computed with the next one\n", path, x.said.n);
    return CLI_OK;
}

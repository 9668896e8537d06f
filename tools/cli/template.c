#define _POSIX_C_SOURCE 200809L /* localtime_r */
#include "template.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static struct {
    const char *name, *date, *file;
} opt;

const struct cli_option template_option_list[] = {
    {0, "template", CLI_TEXT, &opt.name,
     "NAME:chatml|qwen3|llama2|llama3|zephyr|phi3|gemma|mistral",
     "chat format of a file without a template: chatml, qwen3, llama2, llama3, zephyr, phi3, gemma "
     "or mistral (default the template in MODEL)"},
    {0, "date", CLI_TEXT, &opt.date, "YYYY-MM-DD",
     "date that a template may put into the prompt (default today)"},
    {0},
};

const struct cli_option template_file_option_list[] = {
    {0, "template-file", CLI_TEXT, &opt.file, "FILE",
     "chat template to use in place of the one in MODEL, such as chat_template.jinja"},
    {0},
};

struct template_format {
    const char *name;
    const char *jinja;
    struct tft_chat_template *t;
    bool space; /* before an answer, which the prompt does not have */
};

/* The names of tft_chat_builtin. */
static struct template_format formats[] = {
    {.name = "chatml"}, {.name = "qwen3"}, {.name = "llama2"}, {.name = "llama3"},
    {.name = "zephyr"}, {.name = "phi3"},  {.name = "gemma"},  {.name = "mistral"},
};
enum { N_FORMATS = sizeof formats / sizeof *formats };

const char *template_names(void)
{
    return "chatml, qwen3, llama2, llama3, zephyr, phi3, gemma or mistral";
}

const char *template_name(const struct template_format *f) { return f->name; }

const char *template_calls(const struct template_format *f) { return tft_chat_call_format(f->t); }

bool template_takes_parts(const struct template_format *f) { return tft_chat_takes_parts(f->t); }

bool template_uses(const struct template_format *f, const char *variable)
{
    return tft_chat_uses(f->t, variable);
}

bool template_thinks(const struct template_format *f)
{
    return template_uses(f, "enable_thinking");
}

/* ---- opening */

/* Whether the template puts a space before an answer, apart from the prompt. */
static bool puts_space(const struct tft_chat_template *t)
{
    static const struct tft_chat_message said[] = {
        {.role = "user", .text = "a", .n = 1}, {.role = "assistant", .text = "b", .n = 1}};
    struct tft_chat_input in = {
        .size = sizeof in, .message = said, .n_message = 1, .bos = "", .eos = "", .has_time = true};
    struct tft_chat_text prompt = {0}, whole = {0};
    bool known = tft_chat_render(&prompt, t, &in, NULL) == TFT_OK;
    in.n_message = 2;
    in.no_prompt = true;
    known = known && tft_chat_render(&whole, t, &in, NULL) == TFT_OK && whole.n > prompt.n + 1;
    bool space = known && memcmp(prompt.p, whole.p, prompt.n) == 0 && whole.p[prompt.n] == ' ' &&
                 whole.p[prompt.n + 1] == 'b';
    tft_chat_text_free(&prompt);
    tft_chat_text_free(&whole);
    return space;
}

/* Parses the template on first use. */
static enum tft_status open_format(struct template_format *f, struct tft_error *err)
{
    if (f->t)
        return TFT_OK;
    enum tft_status status = tft_chat_open(&f->t, f->jinja, strlen(f->jinja), err);
    f->space = status == TFT_OK && puts_space(f->t);
    return status;
}

static struct template_format *find(const char *name)
{
    for (int i = 0; i < N_FORMATS; i++)
        if (strcmp(formats[i].name, name) == 0) {
            formats[i].jinja = tft_chat_builtin(name);
            return &formats[i];
        }
    return NULL;
}

const struct template_format *template_named(const char *name)
{
    struct template_format *f = find(name);
    return f && open_format(f, NULL) == TFT_OK ? f : NULL;
}

static struct template_format given; /* --template-file */

const char *template_source(const struct template_format *f) { return f->jinja; }

int template_open_file(void)
{
    struct tft_error err;
    size_t n;
    if (!opt.file)
        return CLI_OK;
    given.name = opt.file;
    given.jinja = cli_read_most(opt.file, 1 << 20, &n); /* as much as a template may have */
    if (!given.jinja)
        return CLI_FAILED;
    if (strlen(given.jinja) != n)
        return cli_fail("%s: the file has a NUL: it is not a template", opt.file);
    return open_format(&given, &err) == TFT_OK ? CLI_OK : cli_fail("%s: %s", opt.file, err.msg);
}

/* The templates of files, each text once. They stay when their model is closed: a server opens and
   closes several models. */
static struct of_file {
    struct template_format f;
    struct of_file *next;
    char jinja[];
} *of_files;

/* The template with this text; NULL after an error message. */
static struct template_format *find_of_file(const char *jinja)
{
    struct of_file *all = of_files;
    while (all && strcmp(all->jinja, jinja) != 0)
        all = all->next;
    if (all)
        return &all->f;
    struct of_file *made = malloc(sizeof *made + strlen(jinja) + 1);
    if (!made) {
        cli_fail("out of memory");
        return NULL;
    }
    *made = (struct of_file){.f = {.name = "of the file", .jinja = made->jinja}, .next = of_files};
    strcpy(made->jinja, jinja);
    of_files = made;
    return &made->f;
}

bool template_has_tool_use(const struct tft_model *m)
{
    return !opt.name && !opt.file && tft_model_tool_template(m) != tft_model_chat_template(m);
}

const struct template_format *template_choose(const struct tft_model *m, const char *path,
                                              bool tools)
{
    struct tft_error err;
    if (opt.file)
        return &given;
    const char *jinja = tools ? tft_model_tool_template(m) : tft_model_chat_template(m);
    if (opt.name) {
        struct template_format *named = find(opt.name);
        if (open_format(named, &err) == TFT_OK)
            return named;
        cli_fail("--template %s: %s", opt.name, err.msg);
        return NULL;
    }
    if (!jinja) {
        cli_fail("%s: the file has no chat template: name the format with --template: %s", path,
                 template_names());
        return NULL;
    }
    struct template_format *f = find_of_file(jinja);
    if (f && open_format(f, &err) != TFT_OK) {
        bool own = tools && template_has_tool_use(m);
        cli_fail("%s: %s%s: name a format with --template: %s", path, own ? "tool_use: " : "",
                 err.msg, template_names());
        return NULL;
    }
    return f;
}

/* ---- the date */

/* Days from 1970 on: Hinnant's days_from_civil (howardhinnant.github.io/date_algorithms.html). */
static int64_t days_to(int year, int month, int day)
{
    int64_t y = year - (month <= 2), era = y / 400, yoe = y - era * 400,
            doy = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1,
            doe = yoe * 365 + yoe / 4 - yoe / 100 + doy;
    return era * 146097 + doe - 719468;
}

static bool read_date(const char *date, int *year, int *month, int *day)
{
    static const char form[] = "dddd-dd-dd";
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    for (size_t i = 0; i < sizeof form; i++) /* including the NUL */
        if (form[i] == 'd' ? date[i] < '0' || date[i] > '9' : date[i] != form[i])
            return false;
    sscanf(date, "%d-%2d-%2d", year, month, day);
    bool leap = (*year % 4 == 0 && *year % 100 != 0) || *year % 400 == 0;
    return *year >= 1 && *month >= 1 && *month <= 12 && *day >= 1 &&
           *day <= days[*month - 1] + (leap && *month == 2);
}

/* The local time, or midnight of --date. */
static int64_t time_now(void)
{
    int year, month, day;
    if (opt.date && read_date(opt.date, &year, &month, &day))
        return days_to(year, month, day) * 86400;
    time_t t = time(NULL);
    struct tm local; /* threads of the server render at the same time */
    return localtime_r(&t, &local)
               ? days_to(local.tm_year + 1900, local.tm_mon + 1, local.tm_mday) * 86400 +
                     local.tm_hour * 3600 + local.tm_min * 60 + local.tm_sec
               : 0;
}

int64_t template_time(void)
{
    static int64_t first;
    first = first ? first : time_now();
    return first;
}

const char *template_given(void) { return opt.name; }

int template_check(void)
{
    int year, month, day;
    if (opt.name && !find(opt.name))
        return cli_usage("--template must be %s, not \"%s\"", template_names(), opt.name);
    if (opt.name && opt.file)
        return cli_usage("--template and --template-file both name a template: give one of them");
    if (opt.date && !read_date(opt.date, &year, &month, &day))
        return cli_usage("--date must be YYYY-MM-DD, not \"%s\"", opt.date);
    return CLI_OK;
}

/* ---- rendering */

/* The template's input, without the start of the answer: *in, and in memory that the caller frees,
   *all and *json. Returns false if memory is short. */
static bool make_input(struct tft_chat_input *in, struct tft_chat_message **all, char **json,
                       const struct template_message *message, size_t n,
                       const struct template_options *o)
{
    static const char *const roles[] = {"system", "user", "assistant"};
    static const char without[] = "{\"enable_thinking\": false}";
    *in = (struct tft_chat_input){.size = sizeof *in, .has_time = true, .time = template_time()};
    if (o->tools) {
        in->json = *json = template_json(message, n, o, &in->n_json);
        return in->json;
    }
    in->message = *all = calloc(n + 1, sizeof **all);
    in->n_message = n;
    in->json = o->no_think ? without : NULL;
    in->n_json = o->no_think ? sizeof without - 1 : 0;
    for (size_t i = 0; *all && i < n; i++)
        (*all)[i] = (struct tft_chat_message){
            .role = roles[message[i].role],
            .text = message[i].text.n ? message[i].text.p : "",
            .n = message[i].text.n};
    return *all;
}

/* Whether the text has what message[n] say; an error message names the one that it lacks. A result
   of a tool is a warning, when it is new. */
static bool check_dropped(const struct tft_chat_text *t, const struct template_format *f,
                          const struct tft_chat_input *in, const struct template_message *message,
                          size_t n, const struct template_options *o)
{
    struct tft_error err;
    size_t said, result;
    bool has_system = n && message[0].role == TEMPLATE_SYSTEM;
    size_t added = o->tools && o->tools->n_ask && !has_system; /* a message about the tools */
    if (tft_chat_dropped(&said, &result, t, in, &err) != TFT_OK)
        return cli_fail("%s", err.msg) == CLI_OK;
    if (said < added || (said == added && has_system))
        return cli_fail("the chat template %s ignores the system message", f->name) == CLI_OK;
    if (said != SIZE_MAX)
        return cli_fail("the chat template %s drops message %zu: the model would not see it",
                        f->name, said - added + 1) == CLI_OK;
    if (result != SIZE_MAX && result - added + 1 == n)
        fprintf(stderr, "tuffet: the chat template %s drops the result of the tool\n", f->name);
    return true;
}

bool template_render(struct tft_chat_text *t, const struct template_format *f,
                     const struct tft_model *m, const struct template_message *message, size_t n,
                     const struct template_options *o)
{
    struct tft_error err;
    struct tft_chat_input in;
    struct tft_chat_message *all = NULL;
    struct cli_text answer = {0};
    char *json = NULL;
    const struct cli_text *last = &message[n - 1].text;
    bool good = make_input(&in, &all, &json, message, n - 1, o) &&
                (!f->space || !last->n || cli_text_append(&answer, " ", 1)) &&
                cli_text_append(&answer, last->p, last->n);
    *t = (struct tft_chat_text){0};
    in.answer = answer.p;
    in.n_answer = answer.n;
    if (!good)
        cli_fail("out of memory");
    else if (tft_chat_render_for(t, f->t, m, &in, &err) != TFT_OK)
        good = (opt.file   ? cli_fail("%s: %s", opt.file, err.msg)
                : opt.name ? cli_fail("%s", err.msg)
                           : cli_fail("%s: name a format with --template: %s", err.msg,
                                      template_names())) == CLI_OK;
    else
        good = check_dropped(t, f, &in, message, n - 1, o);
    if (!good)
        tft_chat_text_free(t);
    free(answer.p);
    free(json);
    free(all);
    return good;
}

enum tft_status template_render_json(struct tft_chat_text *t, struct template_dropped *dropped,
                                     const struct template_format *f, const struct tft_model *m,
                                     const char *json, size_t n, bool goes_on,
                                     struct tft_error *err)
{
    struct tft_chat_input in = {.size = sizeof in,
                                .json = json,
                                .n_json = n,
                                .has_time = true,
                                .time = time_now(),
                                .read_arguments = true,
                                .continue_last = goes_on};
    enum tft_status status = tft_chat_render_for(t, f->t, m, &in, err);
    if (status == TFT_OK)
        status = tft_chat_dropped(&dropped->said, &dropped->result, t, &in, err);
    return status;
}

size_t template_lead(const struct template_format *f, const char *answer, size_t n)
{
    return n && *answer == ' ' && f->space;
}

/* ---- tokenizing */

int32_t *template_tokenize(const struct tft_chat_text *t, const struct tft_model *m, size_t *n,
                           bool *text_goes_on)
{
    enum tft_status status = tft_chat_tokenize(t, m, NULL, 0, n, text_goes_on);
    int32_t *ids = status == TFT_OK && *n ? malloc(*n * sizeof *ids) : NULL;
    if (ids)
        status = tft_chat_tokenize(t, m, ids, *n, n, text_goes_on);
    if (ids && status == TFT_OK)
        return ids;
    free(ids);
    if (status == TFT_ERR_UNSUPPORTED)
        cli_fail("the model has no tokenizer; a llama2.c model needs --tokenizer FILE");
    else
        cli_fail("cannot tokenize the conversation: %s", status != TFT_OK ? tft_status_text(status)
                                                         : *n             ? "out of memory"
                                                                          : "it has no tokens");
    return NULL;
}

/* ---- a system message */

/* Possible beginnings of a user's message. A tokenizer may merge the last of the markup with the
   first of it. */
static const char *const openings[] = {"Hello", "what", "7",   "\n\n\n",
                                       "  1",   "\"A",  "- b", "\xc3\xa9"};
enum { OPENINGS = sizeof openings / sizeof *openings };

/* The tokens of a conversation whose first user message is `opening`. */
static int32_t *begin(const struct template_format *f, const struct tft_model *m,
                      const char *system, const struct template_options *o, const char *opening,
                      size_t *n)
{
    struct tft_chat_text t = {0};
    bool goes_on;
    struct template_message all[] = {
        {.role = TEMPLATE_SYSTEM, .text = {.p = (char *)(uintptr_t)system, .n = strlen(system)}},
        {.role = TEMPLATE_USER, .text = {.p = (char *)(uintptr_t)opening, .n = strlen(opening)}},
        {.role = TEMPLATE_ASSISTANT},
    };
    int32_t *ids = NULL;
    if (template_render(&t, f, m, all, 3, o))
        ids = template_tokenize(&t, m, n, &goes_on);
    tft_chat_text_free(&t);
    return ids;
}

static size_t common(const int32_t *a, size_t n, const int32_t *b, size_t n_b)
{
    size_t i = 0;
    while (i < n && i < n_b && a[i] == b[i])
        i++;
    return i;
}

/* How many of the tokens ids[n] do not depend on the system message: they are compared with the
   tokens of another message. (Without a message, a template may insert one of its own, even this
   one.) Returns n after an error message. */
static size_t independent(const struct template_format *f, const struct tft_model *m,
                          const char *system, const struct template_options *o, const int32_t *ids,
                          size_t n)
{
    size_t len = strlen(system), n_other;
    char *changed = malloc(len + 2);
    if (!changed) {
        cli_fail("out of memory");
        return n;
    }
    changed[0] = '?';
    memcpy(changed + 1, system, len + 1);
    int32_t *other = begin(f, m, changed, o, openings[0], &n_other);
    size_t same = other ? common(ids, n, other, n_other) : n;
    if (other && same == n)
        cli_fail("the chat template %s ignores the system message", f->name);
    free(changed);
    free(other);
    return same;
}

int32_t *template_system_tokens(const struct template_format *f, const struct tft_model *m,
                                const char *system, const struct template_options *o, size_t *n)
{
    int32_t *ids = begin(f, m, system, o, openings[0], n);
    for (int i = 1; i < OPENINGS && ids; i++) {
        size_t n_other;
        int32_t *other = begin(f, m, system, o, openings[i], &n_other);
        *n = other ? common(ids, *n, other, n_other) : 0;
        if (!other) {
            free(ids);
            ids = NULL;
        }
        free(other);
    }
    if (!ids || independent(f, m, system, o, ids, *n) < *n)
        return ids;
    free(ids);
    return NULL;
}

/* Chat templates, compared with Jinja2. tests/chat/oracle.py wrote the expected texts. */
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc32.h"
#include "chat/tuffet_chat.h"
#include "paths.h"

static const char *folder; /* tests/chat */

static char *read_path(const char *path, size_t *n)
{
    enum { ROOM = 1 << 22 };
    FILE *f = fopen(path, "rb");
    char *p = malloc(ROOM);
    if (!f || !p)
        fail_msg("%s cannot be read", path);
    *n = fread(p, 1, ROOM - 1, f);
    p[*n] = 0;
    fclose(f);
    return p;
}

static char *read_file(const char *sub, const char *name, const char *suffix, size_t *n)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s%s%s", folder, sub, name, suffix);
    return read_path(path, n);
}

static struct tft_chat_input input(const char *json, size_t n)
{
    return (struct tft_chat_input){.size = sizeof(struct tft_chat_input),
                                   .json = json,
                                   .n_json = n,
                                   .bos = "<s>",
                                   .eos = "</s>",
                                   .has_time = true,
                                   .time = 1709219045}; /* NOW of oracle.py */
}

static enum tft_status render(struct tft_chat_text *out, const char *source, size_t n,
                              const struct tft_chat_input *in, struct tft_error *err)
{
    struct tft_chat_template *t;
    *out = (struct tft_chat_text){0};
    enum tft_status status = tft_chat_open(&t, source, n, err);
    if (status == TFT_OK)
        status = tft_chat_render(out, t, in, err);
    tft_chat_close(t);
    return status;
}

/* Counts a difference, and prints it. want: NULL if the template does not take the case */
static int compare(const char *what, const char *source, size_t n_source, const char *json,
                   size_t n_json, const char *want, size_t n)
{
    struct tft_chat_text got;
    struct tft_error err = {0};
    struct tft_chat_input in = input(json, n_json);
    enum tft_status status = render(&got, source, n_source, &in, &err);
    bool same = want ? status == TFT_OK && got.n == n && memcmp(got.p, want, n) == 0
                     : status != TFT_OK && err.msg[0];
    if (!same)
        printf("%s\n  want %.*s\n  got  %s\n", what, want ? (int)n : 7, want ? want : "(error)",
               status == TFT_OK ? got.p : err.msg);
    tft_chat_text_free(&got);
    return !same;
}

/* Reads the number at *p, or -1 for the word "error", and the rest of the line. */
static long size_at(char **p)
{
    long n = strncmp(*p, "error", 5) == 0 ? -1 : strtol(*p, NULL, 10);
    *p = strchr(*p, '\n') + 1;
    return n;
}

static void snippets(void **state)
{
    size_t n, n_json;
    int wrong = 0, entries = 0;
    char *text = read_file("", "snippets", ".txt", &n), *p = text,
         *json = read_file("cases/", "snippets", ".json", &n_json);
    (void)state;
    for (; *p == '@'; entries++) {
        size_t n_source = strtoul(p + 2, &p, 10);
        p++;
        long size = size_at(&p);
        char *source = p, *want = p + n_source + 1;
        char what[200];
        snprintf(what, sizeof what, "%.*s", (int)n_source, source);
        wrong += compare(what, source, n_source, json, n_json, size < 0 ? NULL : want,
                         size < 0 ? 0 : (size_t)size);
        p = want + (size < 0 ? 0 : size) + 1;
    }
    assert_int_equal(*p, 0);
    assert_true(entries > 60);
    assert_int_equal(wrong, 0);
    free(text);
    free(json);
}

static void own_templates(void **state)
{
    size_t n, n_source, n_json;
    int wrong = 0, entries = 0;
    char *text = read_file("", "expected", ".txt", &n), *p = text;
    (void)state;
    for (; *p == '@'; entries++) {
        char name[64], data[64], what[200];
        assert_int_equal(sscanf(p, "@ %63s %63s", name, data), 2);
        p += 4 + strlen(name) + strlen(data);
        long size = size_at(&p);
        char *source = read_file("templates/", name, ".jinja", &n_source),
             *json = read_file("cases/", data, ".json", &n_json);
        snprintf(what, sizeof what, "%s over %s", name, data);
        wrong += compare(what, source, n_source, json, n_json, size < 0 ? NULL : p,
                         size < 0 ? 0 : (size_t)size);
        p += (size < 0 ? 0 : size) + 1;
        free(source);
        free(json);
    }
    assert_int_equal(*p, 0);
    assert_true(entries >= 100);
    assert_int_equal(wrong, 0);
    free(text);
}

/* ---- content */

#define PARTS(form)                                                                                \
    "{% for p in m['content'] %}{% if p['type'] == 'text' %}" form "{% endif %}{% endfor %}"
#define EACH(body) "{% for m in messages %}<{{ m.role }}>" body "{% endfor %}"

/* Content arrives in the form that the template takes; templates that take both get it as it is. */
static void content_in_each_form(void **state)
{
    static const struct {
        const char *source, *want;
        bool takes_parts;
    } rows[] = {
        {EACH("{{ m.content }}"), "<user>[{'type': 'text', 'text': 'a'}]<system>b", false},
        {EACH("{{ m.content | string }}{{ x.y.z }}"), NULL, false},
        /* SmolVLM */
        {EACH(PARTS("{{ p['text'] }}")), "<user>a<system>b", true},
        {EACH("{% if m.content is string %}{{ m.content }}{% else %}" PARTS("({{ p.text }})")
              "{% endif %}"),
         "<user>(a)<system>b", true},
        /* Qwen 3: parts are lost */
        {EACH("{% if m.content is string %}{{ m.content }}{% endif %}"), "<user><system>b", false},
        /* TranslateGemma */
        {EACH("{% set c = m.content %}{% if c is string or c | length != 1 %}"
              "{{ raise_exception('no') }}{% elif 'source_lang_code' not in c[0] and "
              "m.role == 'user' and c[0].text != 'a' %}{{ raise_exception('no') }}{% endif %}"
              "{{ c[0].text | trim }}"),
         "<user>a<system>b", true},
    };
    static const char json[] =
        "{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": "
        "\"a\"}]}, {\"role\": \"system\", \"content\": \"b\"}]}";
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct tft_chat_template *t;
        assert_int_equal(tft_chat_open(&t, rows[i].source, strlen(rows[i].source), NULL), TFT_OK);
        assert_int_equal(tft_chat_takes_parts(t), rows[i].takes_parts);
        tft_chat_close(t);
        assert_int_equal(compare(rows[i].source, rows[i].source, strlen(rows[i].source), json,
                                 sizeof json - 1, rows[i].want,
                                 rows[i].want ? strlen(rows[i].want) : 0),
                         0);
    }
}

/* The first message of the system and the users, and of the others, that a template drops. */
static void dropped_messages(void **state)
{
    enum { NONE = -1 };
    static const char talk[] =
        "{\"messages\": [{\"role\": \"system\", \"content\": \"Be \\\"brief\\\" \\u00e9\"}, "
        "{\"role\": \"user\", \"content\": \" say\\n it \"}, "
        "{\"role\": \"assistant\", \"content\": \"lost\"}, "
        "{\"role\": \"tool\", \"content\": \"{\\\"a\\\":[1,2.00]}\"}, "
        "{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"x\"}, "
        "{\"type\": \"text\", \"text\": \"y\"}]}]}",
                      think[] = "{\"messages\": [{\"role\": \"user\", \"content\": \"\"}, "
                                "{\"role\": \"system\", \"content\": \"/no_think a\"}]}",
                      hi[] = "{\"messages\": [{\"role\": \"user\", \"content\": \"user\"}]}";
    static const struct {
        const char *source, *json;
        int said, result;
    } rows[] = {
        {"{{ messages }}", talk, NONE, NONE},
        {"{{ messages | tojson }}", talk, NONE, NONE},
        {EACH("{{ m.content }}"), think, NONE, NONE},
        {EACH("{{ m.content.replace('/no_think', '') }}"), think, NONE, NONE},
        {EACH("{{ m.content[:-1] }}"), think, 1, NONE},
        {EACH("{% if m.content is string %}{{ m.content | trim }}{% endif %}"), talk, 4, NONE},
        {EACH("{% if m.role != 'tool' %}{{ m.content | tojson }}{% endif %}"), talk, NONE, 3},
        {EACH("{% if m.role != 'tool' %}{{ m.content | tojson }}{% else %}"
              "{{ m.content | from_json | tojson(indent=4) }}{% endif %}"),
         talk, NONE, NONE},
        {EACH("{% if not loop.first %}{{ m.content | tojson }}{% endif %}"), talk, 0, NONE},
        {"{% for m in messages[::-1] %}{{ m.content | tojson }}{% endfor %}", talk, NONE, NONE},
        {EACH("{% for line in (m.content | string).split('\\n') %}> {{ line }}\n{% endfor %}"), hi,
         NONE, NONE},
        /* the template's own word is not the user's */
        {EACH(""), hi, 0, NONE},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct tft_chat_text t;
        struct tft_error err;
        struct tft_chat_input in = input(rows[i].json, strlen(rows[i].json));
        size_t said = 0, result = 0;
        if (render(&t, rows[i].source, strlen(rows[i].source), &in, &err) != TFT_OK ||
            tft_chat_dropped(&said, &result, &t, &in, &err) != TFT_OK)
            fail_msg("%s: %s", rows[i].source, err.msg);
        if (said != (size_t)rows[i].said || result != (size_t)rows[i].result)
            fail_msg("%s: %d, %d of %s", rows[i].source, (int)said, (int)result, t.p);
        tft_chat_text_free(&t);
    }
    const struct tft_chat_message message[] = {{.role = "user", .text = "aab", .n = 3},
                                               {.role = "tool", .text = "b\xff", .n = 2}};
    struct tft_chat_input in = {.size = sizeof in, .message = message, .n_message = 2};
    struct tft_chat_text t = {.p = (char[]){"aaab"}, .n = 4};
    size_t said, result;
    assert_int_equal(tft_chat_dropped(&said, &result, &t, &in, NULL), TFT_OK);
    assert_true(said == SIZE_MAX && result == 1);
    char many[4096] = "";
    t = (struct tft_chat_text){.p = many, .n = sizeof many};
    in.max_steps = 100;
    assert_int_equal(tft_chat_dropped(&said, &result, &t, &in, NULL), TFT_ERR_FULL);
}

/* A setting of a later version would be ignored otherwise. */
static void what_is_reserved_must_be_zero(void **state)
{
    (void)state;
    struct tft_chat_message message[] = {{.role = "user", .text = "a", .n = 1},
                                         {.role = "user", .text = "b", .n = 1, .reserved = {0, 1}}};
    struct tft_chat_input in = {.size = sizeof in, .message = message, .n_message = 2};
    struct tft_chat_text t;
    struct tft_error err;
    size_t said, result;
    assert_int_equal(render(&t, "{{ messages }}", 14, &in, &err), TFT_ERR_ARG);
    assert_non_null(strstr(err.msg, "struct tft_chat_message: reserved[1]"));
    message[1].reserved[1] = 0;
    assert_int_equal(render(&t, "{{ messages }}", 14, &in, &err), TFT_OK);
    assert_true(t.reserved[0] == 0 && t.reserved[1] == 0);
    t.reserved[0] = 1;
    assert_int_equal(tft_chat_dropped(&said, &result, &t, &in, &err), TFT_ERR_ARG);
    assert_non_null(strstr(err.msg, "struct tft_chat_text: reserved[0]"));
    tft_chat_text_free(&t);
}

/* The text ends after the last message, which the model continues. */
static void continued_messages(void **state)
{
#define TURNS                                                                                      \
    EACH("{{ m.content | trim }}<end>\n") "{% if add_generation_prompt %}<assistant>{% endif %}"
    static const struct {
        const char *source, *said, *want; /* want NULL: an error */
    } rows[] = {
        {TURNS, "Roses are", "<user>hi<end>\n<assistant>Roses are"},
        {TURNS, "Roses are ", "<user>hi<end>\n<assistant>Roses are "},
        {TURNS, "\\n end", "<user>hi<end>\n<assistant>end"}, /* not the <end> of the template */
        {TURNS, "hi hi", "<user>hi<end>\n<assistant>hi hi"},
        {EACH(PARTS("{{ p.text }}") "<end>"), "Roses", "<user>hi<end><assistant>Roses"},
        {EACH("{% set x = m.content.split('</think>') %}{{ x[0] }}{% if x | length > 1 %}</think>"
              "{{ x[1] | trim }}{% endif %}<end>"),
         "<think>a</think>\\n\\nb", "<user>hi<end><assistant><think>a</think>b"},
        {TURNS, "", NULL},
        {TURNS, " ", NULL},
        {EACH("{% if m.role == 'user' %}{{ m.content }}{% endif %}"), "Roses", NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char json[512];
        struct tft_chat_text t;
        struct tft_error err = {0};
        int n = snprintf(json, sizeof json,
                         "{\"add_generation_prompt\": true, \"messages\": [{\"role\": \"user\", "
                         "\"content\": \"hi\"}, {\"role\": \"assistant\", \"content\": \"%s\"}]}",
                         rows[i].said);
        struct tft_chat_input in = input(json, (size_t)n);
        in.continue_last = true;
        enum tft_status status = render(&t, rows[i].source, strlen(rows[i].source), &in, &err);
        assert_int_equal(status, rows[i].want ? TFT_OK : TFT_ERR_ARG);
        assert_string_equal(rows[i].want ? t.p : err.msg,
                            rows[i].want ? rows[i].want
                            : *rows[i].said && *rows[i].said != ' '
                                ? "the chat template drops the last message, which cannot be "
                                  "continued"
                                : "the last message has no text to continue");
        tft_chat_text_free(&t);
    }
}

/* ---- trust */

/* The message is U's, the templates write X's: whatever is done to a text, each keeps its mark. */
static void marks_stay(void **state)
{
    static const char *const sources[] = {
        "X{{ messages[0].content }}X",
        "{{ 'X' ~ messages[0].content + 'X' }}",
        "{{ (' X' + messages[0].content + 'X ') | trim }}{{ ('X' ~ u).strip('Y') }}",
        "{{ ('X' + messages[0].content + 'X')[1:-1] }}{{ ('XX' + u + 'XX')[::-1] }}",
        "{{ ('X' ~ u ~ 'X')[1] }}{{ ('X' ~ u ~ 'X')[0] }}{% for c in 'X' ~ u %}{{ c }}{% endfor %}",
        "{{ ('X' + messages[0].content).replace('X', 'XX') }}{{ 'XYX' | replace('Y', u) }}",
        "{{ ('X ' ~ u ~ ' X').split() | join('X') }}{{ ('X,' ~ u).rsplit(',', 1)[1] }}",
        "{{ ('x' ~ u | lower) | upper | replace('X', 'X') }}{{ (u ~ ' x') | title }}",
        "{{ [u, 'X'] | tojson }}{{ {'X': u, u: 'X'} | tojson(indent=2) }}{{ [u, 'X'] }}",
        "{{ [u, 'X'] | string | length }}{{ [u, 'X'] | sort | first }}{{ [u, 'X'] | join('X') }}",
        "{{ '{}X{}'.format(u, 'X') }}{{ ('X\n' ~ u) | indent }}{% set s %}X{{ u }}{% endset %}{{ s "
        "}}",
        "{% macro m(a) %}X{{ a }}{{ caller() }}{% endmacro %}{% call m(u) %}{{ u }}X{% endcall %}",
        "{% filter trim %} X{{ u }} {% endfilter %}{{ ('[\"' ~ u ~ '\", \"U\"]') | from_json }}",
        "{% for k, v in d.items() %}{{ k }}{{ v }}X{% endfor %}{{ d | dictsort | map('join') | "
        "list }}",
        "{{ 'X' ~ strftime_now(u) }}",
    };
    static const char json[] = "{\"messages\": [{\"role\": \"user\", \"content\": \"UUU\"}], "
                               "\"u\": \"UU\", \"d\": {\"U\": \"UU\"}}";
    (void)state;
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
        struct tft_chat_text t;
        struct tft_error err;
        struct tft_chat_input in = input(json, sizeof json - 1);
        if (render(&t, sources[i], strlen(sources[i]), &in, &err) != TFT_OK)
            fail_msg("%s: %s", sources[i], err.msg);
        size_t k = 0, users = 0;
        for (size_t at = 0; at < t.n; at++) {
            while (k < t.n_trusted && t.trusted[k].end <= at)
                k++;
            bool trusted = k < t.n_trusted && t.trusted[k].begin <= at;
            users += t.p[at] == 'U';
            if ((t.p[at] == 'U' && trusted) || (t.p[at] == 'X' && !trusted))
                fail_msg("%s: byte %zu of %s", sources[i], at, t.p);
        }
        assert_true(users || strchr(t.p, 'X'));
        tft_chat_text_free(&t);
    }
}

/* The additions of a filter or a printed list to a user's text are not trusted. */
static void additions_are_not_trusted(void **state)
{
    static const char *const sources[] = {
        "{{ [u, {u: u}] | tojson(indent=2) }}", "{{ [u] }}{{ {u: u} }}", "{{ u | indent }}",
        "{{ j | from_json | first }}", "{{ strftime_now('%Y' ~ u)[4:] }}",
    };
    static const char json[] = "{\"u\": \"U\\nU\", \"j\": \"[\\\"\\\\u0055<\\\"]\"}";
    (void)state;
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
        struct tft_chat_text t;
        struct tft_error err;
        struct tft_chat_input in = input(json, sizeof json - 1);
        if (render(&t, sources[i], strlen(sources[i]), &in, &err) != TFT_OK)
            fail_msg("%s: %s", sources[i], err.msg);
        for (size_t k = 0; k < t.n_trusted; k++)
            for (size_t at = t.trusted[k].begin; at < t.trusted[k].end; at++)
                if (t.p[at] != ' ') /* of indent */
                    fail_msg("%s: byte %zu of %s", sources[i], at, t.p);
        tft_chat_text_free(&t);
    }
}

/* A role is trusted only if it is a usual one. */
static void roles(void **state)
{
    static const char source[] = "{% for m in messages %}{{ '<|' + m.role + '|>' }}{% endfor %}";
    const struct tft_chat_message said[] = {{.role = "user", .text = "a", .n = 1},
                                            {.role = "im_end", .text = "b", .n = 1}};
    struct tft_chat_input in = {.size = sizeof in, .message = said, .n_message = 2};
    struct tft_chat_text t;
    (void)state;
    assert_int_equal(render(&t, source, sizeof source - 1, &in, NULL), TFT_OK);
    assert_string_equal(t.p, "<|user|><|im_end|>");
    assert_int_equal(t.n_trusted, 2);
    assert_int_equal(t.trusted[0].end, 10);   /* <|user|><| */
    assert_int_equal(t.trusted[1].begin, 16); /* |> */
    tft_chat_text_free(&t);
}

/* ---- bounds */

static void bounds(void **state)
{
    static const struct {
        const char *source, *msg;
    } cases[] = {
        {"{% set x = 'ab' * 999999 %}{% for i in range(9999) %}{% if 'z' in x %}{% endif %}"
         "{% endfor %}",
         "steps"},
        {"{% set ns = namespace(x='x') %}{% for i in range(99) %}{% set ns.x = ns.x + ns.x %}"
         "{% endfor %}",
         "bytes of memory"},
        {"{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "deep"},
        {"{% for a in range(99999) %}{{ 'x' * 1000 }}{% endfor %}", "writes more than 16777216"},
        {"{% set a = [] %}{% set _ = a.append(a) %}{{ a }}", "deep"},
        {"{% set a = [] %}{% set _ = a.append(a) %}{% set b = [] %}{% set _ = b.append(b) %}"
         "{{ a == b }}",
         "deep"},
        {"{{ 'x' * 99999999999 }}", "steps"},
        {"{% set x = 'a' * 999999 %}{% for i in range(99) %}{% if 'ab' in x %}{% endif %}"
         "{% endfor %}",
         "steps"},
        {"{{ ('ab' * 99999).strip('c' * 99999) }}", "steps"},
        {"{{ ('a' * 999999).rsplit('a' * 99999 ~ 'b') }}", "steps"},
        {"{% set x = ' ' * 999999 %}{% for i in range(999) %}{{ x.split() | length }}{% endfor %}",
         "steps"},
        {"{% set x = 'a' * 999999 %}{% for i in range(999) %}{{ x[9999999] }}{% endfor %}",
         "steps"},
        {"{% set x = [0] * 99999 %}{% for i in range(999) %}{% set y = x | select | list %}"
         "{% endfor %}",
         "steps"},
        {"{% set x = [0] * 99999 %}{% set y = x + [] %}{% for i in range(999) %}"
         "{% set z = x == y %}{% endfor %}",
         "steps"},
        {"{{ 'x' | map('map', 'map', 'upper') | list }}", "map of the filter map"},
        {"{% set a = [] %}{% set _ = a.append(a) %}{{ a | tojson }}", "deep"},
        {"{% macro m() %}\n\n{{ 'a' }}{% endmacro %}\n{{ 1 + m() }}", "line 4: operator +"},
        {"{% for i in [1] %}{% macro m() %}{% break %}{% endmacro %}{% endfor %}",
         "outside a loop"},
        {"\n{{ raise_exception('not you') }}",
         "line 2: the template rejects this conversation: not you"},
        {"a\n\n{% include 'b' %}", "line 3: the tag {% include %} is not supported here"},
        {"\n{{ 1 | nope }}", "line 2: the filter nope is not supported"},
        {"{{ strftime_now('%Q') }}", "format is not supported"},
        {"{{ '\\x4\x11' }}", "line 1: an escape sequence is not supported"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tft_chat_text t;
        struct tft_error err;
        struct tft_chat_input in = input("{}", 2);
        assert_int_not_equal(render(&t, cases[i].source, strlen(cases[i].source), &in, &err),
                             TFT_OK);
        if (!strstr(err.msg, cases[i].msg))
            fail_msg("%s: %s", cases[i].source, err.msg);
    }
    struct tft_chat_text t;
    struct tft_error err;
    struct tft_chat_input in = input("{}", 2);
    char deep[1000] = "{{ ";
    for (size_t n = 3; n + 9 < sizeof deep; n += 4)
        memcpy(deep + n, "not 1 }}", 9);
    assert_int_equal(render(&t, deep, strlen(deep), &in, &err), TFT_ERR_FULL);
    memset(deep + 3, '(', 65);
    assert_int_equal(render(&t, deep, 68, &in, &err), TFT_ERR_FULL);
    /* a slice of a text is not made of a list of characters */
    memcpy(deep + 3, "('a' * 4000000)[1:] | length }}", 31);
    assert_int_equal(render(&t, deep, 34, &in, &err), TFT_OK);
    tft_chat_text_free(&t);
    in.has_time = false;
    assert_int_equal(render(&t, "{{ strftime_now('%Y') }}", 24, &in, &err), TFT_ERR_ARG);
    in.max_output = 3;
    assert_int_equal(render(&t, "abcd", 4, &in, &err), TFT_ERR_FULL);
    in = input("{\"messages\": [1,", 16);
    assert_int_equal(render(&t, "", 0, &in, &err), TFT_ERR_ARG);
    assert_non_null(strstr(err.msg, "JSON: line 1, column 17"));
}

/* ---- templates of real tokenizers, outside the repository */

/* The chat template of tokenizer_config.json: a string of the JSON, which a template prints. */
static struct tft_chat_text template_of(const char *path)
{
    static const char source[] = "{{ chat_template }}";
    struct tft_chat_text out;
    struct tft_error err;
    size_t n;
    char *json = read_path(path, &n);
    struct tft_chat_input in = input(json, n);
    if (render(&out, source, sizeof source - 1, &in, &err) != TFT_OK)
        fail_msg("%s: %s", path, err.msg);
    free(json);
    return out;
}

static void shared_templates(void **state)
{
    size_t n, n_json;
    int wrong = 0, entries = 0;
    char *text = read_file("", "shared", ".txt", &n);
    (void)state;
    for (char *p = strtok(text, "\n"); p; p = strtok(NULL, "\n")) {
        char name[64], data[64], size[32], file[160];
        unsigned long crc;
        struct tft_chat_text got;
        struct tft_error err;
        assert_int_equal(sscanf(p, "@ %63s %63s %31s %lu", name, data, size, &crc), 4);
        snprintf(file, sizeof file, "/tokenizers/%s/tokenizer_config.json", name);
        const char *path = shared_path(file);
        if (!path)
            skip_because("shared%s: not found", file);
        struct tft_chat_text source = template_of(path);
        char *json = read_file("cases/", data, ".json", &n_json);
        struct tft_chat_input in = input(json, n_json);
        enum tft_status status = render(&got, source.p, source.n, &in, &err);
        bool fails = strcmp(size, "error") == 0;
        bool same = fails ? status != TFT_OK
                          : status == TFT_OK && got.n == strtoul(size, NULL, 10) &&
                                tft_crc32(0, got.p, got.n) == crc;
        if (!same)
            printf("%s over %s: %s\n", name, data, status == TFT_OK ? got.p : err.msg);
        wrong += !same;
        entries++;
        tft_chat_text_free(&got);
        tft_chat_text_free(&source);
        free(json);
    }
    assert_true(entries > 30);
    assert_int_equal(wrong, 0);
    free(text);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(snippets),   cmocka_unit_test(own_templates),
        cmocka_unit_test(marks_stay), cmocka_unit_test(roles),
        cmocka_unit_test(additions_are_not_trusted),
        cmocka_unit_test(content_in_each_form),
        cmocka_unit_test(dropped_messages),
        cmocka_unit_test(what_is_reserved_must_be_zero),
        cmocka_unit_test(continued_messages),
        cmocka_unit_test(bounds),     cmocka_unit_test(shared_templates),
    };
    folder = argc > 1 ? argv[1] : ".";
    return cmocka_run_group_tests(tests, NULL, NULL);
}

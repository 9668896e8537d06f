/* The texts of tasks, compared with lm-evaluation-harness (August 2026) on the same documents. */
#include "test.h"

#include <stdlib.h>
#include <string.h>

#include "tools/eval/task.h"

static const struct {
    enum task task;
    const char *line;
    struct {
        const char *context, *rest; /* after _encode_pair has moved white space */
        size_t length;
    } option[3];
    size_t right;
} sound[] = {
    {TASK_LAMBADA,
     "{\"text\": \"He said,  \\\"Hi\\\" to\\n\\nSal\"}",
     {{"He said,  \"Hi\"", " to\n\nSal", 0}},
     0},
    {TASK_LAMBADA, "{\"text\": \"one \\ttwo\", \"other\": [{}]}", {{"one", " \ttwo", 0}}, 0},
    {TASK_LAMBADA, "{\"text\": \"one\\n two\"}", {{"one", "\n two", 0}}, 0},
    {TASK_PIQA,
     "{\"query\": \"Question: How?\\n\", \"choices\": [\"So.\", \"caf\\u00e9 \\ud83d\\ude00\"], "
     "\"gold\": 1}",
     {{"Question: How?\nAnswer:", " So.", 3},
      {"Question: How?\nAnswer:", " caf\xc3\xa9 \xf0\x9f\x98\x80", 6}},
     1},
    {TASK_OPENBOOKQA,
     "{\"query\": \"Predators eat\", \"choices\": [\"lions\", \"bunnies\", \"grass\"], \"gold\": "
     "2}",
     {{"Predators eat", " lions", 5},
      {"Predators eat", " bunnies", 7},
      {"Predators eat", " grass", 5}},
     2},
    {TASK_COPA,
     "{\"gold\": 0, \"query\": \"It rained, therefore \", \"choices\": [\"it was wet.\", \"it was "
     "dry.\"]}",
     {{"It rained, therefore", "   it was wet.", 11},
      {"It rained, therefore", "   it was dry.", 11}},
     0},
    {TASK_WINOGRANDE,
     "{\"context_options\": [\"Ann or Bo; Ann\", \"Ann or Bo; Bo\"], \"continuation\": \" won. \", "
     "\"gold\": 1}",
     {{"Ann or Bo; Ann", " won.", 4}, {"Ann or Bo; Bo", " won.", 4}},
     1},
    {TASK_HELLASWAG,
     "{\"activity_label\": \"Roof shingle removal\", \"ctx_a\": \"A man is sitting on a roof.\", "
     "\"ctx_b\": \"he\", \"ctx\": \"-\","
     " \"endings\": [\"is using wrap to wrap a pair of skis.\", \"starts pulling up roofing on a "
     "roof.\"], \"label\": \"1\"}",
     {{"Roof shingle removal: A man is sitting on a roof. He",
       " is using wrap to wrap a pair of skis.", 37},
      {"Roof shingle removal: A man is sitting on a roof. He",
       " starts pulling up roofing on a roof.", 36}},
     1},
    {TASK_HELLASWAG,
     "{\"activity_label\": \"Home and Garden\", \"ctx_a\":"
     " \"[header] How to clean [title] Use soap. [step] Rub   it in [substeps] \", \"ctx_b\": \"\","
     " \"endings\": [\"[substeps] Rinse. [step]  Dry [title] Done.\", \" [a [title] b] c\\nd "
     "[e\\nf] g\"], \"label\": 1}",
     {{"Home and Garden: How to clean. Use soap. Rub  it in", "   Rinse.  Dry. Done.", 19},
      {"Home and Garden: How to clean. Use soap. Rub  it in", "   c\nd [e\nf] g", 12}},
     1},
    {TASK_HELLASWAG,
     "{\"activity_label\": \"x\", \"ctx_a\": \"a\", \"ctx_b\": \"the Man IN Paris\","
     " \"endings\": [\"caf\\u00e9 [\", \"] b\"], \"label\": 0}",
     {{"x: a The man in paris", " caf\xc3\xa9 [", 6}, {"x: a The man in paris", " ] b", 3}},
     0},
    {TASK_HELLASWAG,
     "{\"ctx\": \"A man\", \"endings\": [\"a\", \"b\"], \"label\": 0}",
     {{"A man", " a", 1}, {"A man", " b", 1}},
     0},
};

#define Q "\"query\": \"a\", "
#define LONG                                                                                       \
    "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx" \
    "xxxxxxx"

static const struct {
    enum task task;
    const char *line, *why;
} wrong[] = {
    {TASK_LAMBADA, "", "byte 0: '[' or '{' expected"},
    {TASK_LAMBADA, "{\"text\": \"a b\"", "byte 14: '}' expected"},
    {TASK_LAMBADA, "{\"text\": \"a b\"} {", "byte 17: end of file expected"},
    {TASK_LAMBADA, "{\"text\": \x1b[31m\"a b\"}", "byte 10: invalid token"},
    {TASK_LAMBADA, "{\"text\": \"a\tb\"}", "control character 0x9"},
    {TASK_LAMBADA, "{\"text\": \"a \xff\"}", "unable to decode byte 0xff"},
    {TASK_LAMBADA, "{\"text\": \"a \\u0000\"}", "\\u0000 is not allowed"},
    {TASK_LAMBADA, "{\"text\": \"a \\ud800\"}", "invalid Unicode"},
    {TASK_LAMBADA, "{\"text\": \"a b\", \"text\": \"a c\"}", "duplicate object key"},
    {TASK_LAMBADA, "{" LONG LONG LONG ": 1}", "byte "},
    {TASK_LAMBADA, "[\"a b\"]", "the line is not a JSON object"},
    {TASK_LAMBADA, "{}", "\"text\" is missing"},
    {TASK_LAMBADA, "{\"text\": 1}", "\"text\" is not a string"},
    {TASK_LAMBADA, "{\"text\": \"\"}", "\"text\" is a single word"},
    {TASK_LAMBADA, "{\"text\": \"word\"}", "\"text\" is a single word"},
    {TASK_LAMBADA, "{\"text\": \" word\"}", "the context is empty"},
    {TASK_LAMBADA, "{\"text\": \"\\n word\"}", "the context is empty"},
    {TASK_LAMBADA, "{\"text\": \"word \"}", "an answer is empty"},
    {TASK_COPA, "{}", "\"query\" is missing"},
    {TASK_COPA, "{" Q "\"gold\": 0}", "\"choices\" is missing"},
    {TASK_COPA, "{" Q "\"choices\": {}, \"gold\": 0}", "\"choices\" is not an array"},
    {TASK_COPA, "{" Q "\"choices\": [], \"gold\": 0}", "\"choices\" has 0 strings, not 2 to 16"},
    {TASK_COPA, "{" Q "\"choices\": [\"b\"], \"gold\": 0}",
     "\"choices\" has 1 strings, not 2 to 16"},
    {TASK_COPA, "{" Q "\"choices\": [1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]}",
     "\"choices\" has 17 strings, not 2 to 16"},
    {TASK_COPA, "{" Q "\"choices\": [\"b\", null], \"gold\": 0}", "\"choices\"[1] is not a string"},
    {TASK_COPA, "{" Q "\"choices\": [\"b\", \"\"], \"gold\": 0}", "an answer is empty"},
    {TASK_COPA, "{" Q "\"choices\": [\"b\", \"c\"]}", "\"gold\" is missing"},
    {TASK_COPA, "{" Q "\"choices\": [\"b\", \"c\"], \"gold\": 1.0}",
     "\"gold\" is not a whole number"},
    {TASK_COPA, "{" Q "\"choices\": [\"b\", \"c\"], \"gold\": \"\"}",
     "\"gold\" is not a whole number"},
    {TASK_COPA, "{" Q "\"choices\": [\"b\", \"c\"], \"gold\": 2}",
     "\"gold\" is 2, but there are 2 options"},
    {TASK_COPA, "{" Q "\"choices\": [\"b\", \"c\"], \"gold\": -1}",
     "\"gold\" is -1, but there are 2 options"},
    {TASK_COPA, "{" Q "\"choices\": [\"b\", \"c\"], \"gold\": 99999999999999999999}",
     "too big integer"},
    {TASK_COPA, "{\"query\": \" \", \"choices\": [\"b\", \"c\"], \"gold\": 0}",
     "the context is empty"},
    {TASK_WINOGRANDE, "{" Q "\"choices\": [\"b\", \"c\"], \"gold\": 0}",
     "\"context_options\" is missing"},
    {TASK_WINOGRANDE, "{\"context_options\": [\"b\", \"c\"], \"gold\": 0}",
     "\"continuation\" is missing"},
    {TASK_HELLASWAG, "{\"endings\": [\"b\", \"c\"], \"label\": 0}", "\"ctx\" is missing"},
    {TASK_HELLASWAG, "{\"ctx_a\": \"a\", \"endings\": [\"b\", \"c\"], \"label\": 0}",
     "\"ctx_b\" is missing"},
    {TASK_HELLASWAG,
     "{\"ctx\": \"a\", \"activity_label\": 1, \"endings\": [\"b\", \"c\"], \"label\": 0}",
     "\"activity_label\" is not a string"},
    {TASK_HELLASWAG, "{\"ctx\": \"\", \"endings\": [\"b\", \"c\"], \"label\": 0}",
     "the context is empty"},
    {TASK_HELLASWAG, "{\"ctx\": \"a\", \"endings\": [\"\", \"c\"], \"label\": 0}",
     "an answer is empty"},
    {TASK_HELLASWAG, "{\"ctx\": \"a\", \"endings\": [\"[b]\", \"c\"], \"label\": 0}",
     "an answer is empty"},
};

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* Reads a copy of the line, in memory that ends with the line. */
static bool reads(enum task task, const char *line, struct task_item *item, char why[TASK_WHY])
{
    size_t n = strlen(line);
    char *copy = malloc(n ? n : 1);
    assert_non_null(copy);
    memcpy(copy, line, n);
    bool ok = task_read(task, copy, n, item, why);
    free(copy);
    return ok;
}

static void texts_agree_with_the_harness(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(sound); i++) {
        struct task_item item = {0};
        char why[TASK_WHY] = "";
        if (!reads(sound[i].task, sound[i].line, &item, why))
            fail_msg("%s: %s", sound[i].line, why);
        assert_int_equal(item.right, sound[i].right);
        for (size_t j = 0; j < item.n; j++) {
            struct task_option *o = &item.option[j];
            const char *context = sound[i].option[j].context, *rest = sound[i].option[j].rest;
            assert_non_null(context);
            assert_int_equal(o->context, strlen(context));
            assert_int_equal(o->text.n, strlen(context) + strlen(rest));
            assert_memory_equal(o->text.p, context, o->context);
            assert_memory_equal(o->text.p + o->context, rest, strlen(rest));
            if (sound[i].task != TASK_LAMBADA)
                assert_int_equal(o->length, sound[i].option[j].length);
        }
        assert_true(item.n == COUNT(sound[i].option) || !sound[i].option[item.n].context);
        task_free(&item);
        assert_int_equal(item.n, 0);
    }
}

static void wrong_lines_have_messages(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(wrong); i++) {
        struct task_item item = {0};
        char why[TASK_WHY] = "";
        assert_false(reads(wrong[i].task, wrong[i].line, &item, why));
        if (!strstr(why, wrong[i].why))
            fail_msg("%s: \"%s\", not \"%s\"", wrong[i].line, why, wrong[i].why);
        for (const char *p = why; *p; p++)
            assert_in_range(*p, ' ', '~');
        task_free(&item);
    }
}

/* TASK_WORDS has the names in the order of enum task. */
static void names(void **state)
{
    (void)state;
    const char *word = TASK_WORDS;
    for (enum task task = TASK_LAMBADA; task <= TASK_HELLASWAG; task++) {
        size_t n = strlen(task_name(task));
        assert_memory_equal(word, task_name(task), n);
        assert_int_equal(word[n], task == TASK_HELLASWAG ? 0 : '|');
        word += n + 1;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_agree_with_the_harness),
        cmocka_unit_test(wrong_lines_have_messages),
        cmocka_unit_test(names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Which files of a repository are the model: tools/pull/choice.c. */
#include "test.h"

#include <stdio.h>
#include <string.h>

#include "tools/pull/choice.h"

/* A list of paths that spaces separate. */
static struct pull_files files_of(const char *paths)
{
    struct pull_files l = {0};
    char path[128];
    for (size_t n; *paths; paths += n + (paths[n] == ' ')) {
        n = strcspn(paths, " ");
        snprintf(path, sizeof path, "%.*s", (int)n, paths);
        assert_true(pull_files_add(&l, &(struct pull_file){.path = path, .size = 1}));
    }
    return l;
}

/* Chooses, and compares the choice with paths that spaces separate. */
static void check(const char *all, const char *quant, enum choice want, const char *some)
{
    struct pull_files from = files_of(all), got = {0}, wanted = files_of(some);
    assert_int_equal(choice_make(&from, quant, &got), want);
    if (want == CHOICE_GGUF || want == CHOICE_FOLDER) {
        assert_int_equal(got.n, wanted.n);
        for (size_t i = 0; i < got.n; i++)
            assert_string_equal(got.p[i].path, wanted.p[i].path);
    }
    pull_files_free(&from);
    pull_files_free(&got);
    pull_files_free(&wanted);
}

static void defaults(void **state)
{
    (void)state;
    check("a-F16.gguf a-Q8_0.gguf a-Q4_K_M.gguf", "", CHOICE_GGUF, "a-Q4_K_M.gguf");
    check("a-F16.gguf a.q8_0.gguf", "", CHOICE_GGUF, "a.q8_0.gguf");
    check("a-F16.gguf README.md", "", CHOICE_GGUF, "a-F16.gguf");
    check("a-F16.gguf b-F16.gguf", "", CHOICE_MANY, "");
    check("a.gguf mmproj-a-Q8_0.gguf imatrix.gguf mtp-a.gguf", "", CHOICE_GGUF, "a.gguf");
    check("A.GGUF", "", CHOICE_GGUF, "A.GGUF");
    check("README.md a.bin", "", CHOICE_NONE, "");
    check("", "", CHOICE_NONE, "");
}

static void names(void **state)
{
    (void)state;
    const char *all = "a-BF16.gguf a-F16.gguf a-IQ4_XS.gguf d/a-q4_k_s.gguf a-Q4_K_M.gguf";
    check(all, "F16", CHOICE_GGUF, "a-F16.gguf");
    check(all, "bf16", CHOICE_GGUF, "a-BF16.gguf");
    check(all, "Q4_K_S", CHOICE_GGUF, "d/a-q4_k_s.gguf");
    check(all, "d/a-q4_k_s.gguf", CHOICE_GGUF, "d/a-q4_k_s.gguf");
    check(all, "Q4_K", CHOICE_NONE, "");
    check(all, "Q2_K", CHOICE_NONE, "");
    check("config.json model.safetensors", "Q2_K", CHOICE_NONE, "");
}

static void parts(void **state)
{
    (void)state;
    const char *two = "a-Q8_0-00001-of-00002.gguf a-Q8_0-00002-of-00002.gguf";
    check("a-Q8_0-00002-of-00002.gguf x a-Q8_0-00001-of-00002.gguf", "", CHOICE_GGUF, two);
    check("a-Q8_0-00001-of-00002.gguf", "", CHOICE_PARTS, "");
    check("a-Q8_0-00002-of-00002.gguf", "", CHOICE_NONE, "");
    check("a-0001-of-0002.gguf", "", CHOICE_GGUF, "a-0001-of-0002.gguf");
    check("a-Q8_0-00001-of-00001.gguf", "", CHOICE_GGUF, "a-Q8_0-00001-of-00001.gguf");
}

static void folders(void **state)
{
    (void)state;
    check("README.md model.safetensors tokenizer.json config.json x.bin", "", CHOICE_FOLDER,
          "config.json tokenizer.json model.safetensors");
    check("model-00001-of-00002.safetensors model.safetensors.index.json config.json", "",
          CHOICE_FOLDER, "config.json model.safetensors.index.json");
    check("1_Pooling/config.json 2_Dense/model.safetensors onnx/config.json 2_Dense/config.json "
          "1_Pooling/a/config.json _x/config.json config.json model.safetensors modules.json",
          "", CHOICE_FOLDER,
          "config.json modules.json 1_Pooling/config.json 2_Dense/model.safetensors "
          "2_Dense/config.json model.safetensors");
    check("1_Pooling/config.json config.json model.safetensors", "", CHOICE_FOLDER,
          "config.json model.safetensors");
    check("model.safetensors", "", CHOICE_NONE, "");
    check("config.json", "", CHOICE_NONE, "");
    check("config.json model.safetensors a.gguf", "", CHOICE_GGUF, "a.gguf");
}

static void labels(void **state)
{
    (void)state;
    static const char *const cases[][2] = {{"a-Q4_K_M.gguf", "Q4_K_M"},
                                           {"d-e/a.q8_0.gguf", "q8_0"},
                                           {"a-b-F16-00001-of-00003.gguf", "F16"},
                                           {"d-e/a.gguf", "a"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *label;
        size_t n = choice_label(cases[i][0], &label);
        assert_int_equal(n, strlen(cases[i][1]));
        assert_memory_equal(label, cases[i][1], n);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(defaults), cmocka_unit_test(names),
                                       cmocka_unit_test(parts), cmocka_unit_test(folders),
                                       cmocka_unit_test(labels)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

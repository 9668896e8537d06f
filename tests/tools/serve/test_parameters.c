/* What parameters of requests mean: tools/serve/parameters.c. */
#include "test.h"

#include "tools/serve/parameters.h"

/* The status that the members give a request: 200, 400 or 501. */
static int status(const char *members, enum api api)
{
    struct fields f = {.body = json_loads(members, 0, NULL)};
    assert_non_null(f.body);
    parameters_check(&f, f.body, api);
    json_decref(f.body);
    return !f.failed ? 200 : f.unsupported ? 501 : 400;
}

/* A refused parameter passes with a value without effect, which may be its own. */
static void values_without_effect(void **state)
{
    (void)state;
    assert_int_equal(status("{\"top_a\": 1}", API_TEXT), 501);
    assert_int_equal(status("{\"top_a\": 0.0, \"grammar_lazy\": false}", API_TEXT), 200);
    assert_int_equal(status("{\"grammar_lazy\": null, \"suffix\": \"\"}", API_TEXT), 200);
    assert_int_equal(status("{\"suffix\": \"x\"}", API_CHAT), 501);
    assert_int_equal(status("{\"suffix\": \"x\"}", API_TEXT), 200);
    assert_int_equal(status("{\"tfs_z\": 1}", API_NATIVE), 200);
    assert_int_equal(status("{\"tfs_z\": 1.0}", API_NATIVE), 200);
    assert_int_equal(status("{\"tfs_z\": 0}", API_NATIVE), 501);
    assert_int_equal(status("{\"tfs_z\": \"1\"}", API_NATIVE), 501);
    assert_int_equal(status("{\"t_max_predict_ms\": -1}", API_NATIVE), 200);
    assert_int_equal(status("{\"modalities\": [\"text\"]}", API_CHAT), 200);
    assert_int_equal(status("{\"modalities\": [\"text\", \"audio\"]}", API_CHAT), 501);
    assert_int_equal(status("{\"adaptive_target\": 0.5}", API_MESSAGES), 501);
    assert_int_equal(status("{\"adaptive_target\": -1.0}", API_MESSAGES), 200);
    assert_int_equal(status("{\"smoothing_factor\": 0.3}", API_OPTIONS), 501);
    assert_int_equal(status("{\"prompt_logprobs\": 0}", API_TEXT), 501);
    assert_int_equal(status("{\"prompt_logprobs\": null}", API_TEXT), 200);
}

/* An API may lack a parameter that another one has. */
static void apis(void **state)
{
    (void)state;
    assert_int_equal(status("{\"n\": 2}", API_CHAT), 200);
    assert_int_equal(status("{\"n\": 2}", API_OLLAMA_CHAT), 501);
    assert_int_equal(status("{\"n\": 1}", API_OLLAMA_CHAT), 200);
    assert_int_equal(status("{\"tools\": [1]}", API_OLLAMA_CHAT), 200);
    assert_int_equal(status("{\"tools\": [1]}", API_OLLAMA_TEXT), 501);
    assert_int_equal(status("{\"tools\": [1], \"thinking\": {\"a\": 1}}", API_MESSAGES), 200);
    assert_int_equal(status("{\"container\": \"x\"}", API_MESSAGES), 501);
    assert_int_equal(status("{\"n\": 2}", API_MESSAGES), 501);
    assert_int_equal(status("{\"grammar\": \"root ::= [0-9]\"}", API_OLLAMA_CHAT), 200);
    assert_int_equal(status("{\"grammar\": \"root ::= [0-9]\"}", API_OPTIONS), 501);
    assert_int_equal(status("{\"format\": \"json\"}", API_OPTIONS), 501);
    assert_int_equal(status("{\"normalize\": false}", API_EMBED), 501);
    assert_int_equal(status("{\"normalize\": true}", API_EMBED), 200);
    assert_true(parameters_honours("tokens", API_TOKENS));
    assert_false(parameters_honours("tokens", API_NATIVE));
    assert_true(parameters_honours("frequency_penalty", API_OPTIONS));
    assert_false(parameters_honours("messages", API_OPTIONS));
    assert_false(parameters_honours("num_gpu", API_OPTIONS));
    assert_false(parameters_honours("nothing", API_OPTIONS));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(values_without_effect),
                                       cmocka_unit_test(apis)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Templates of small models, for files without a template. To add a template, add a row. */
#include "chat/tuffet_chat.h"

#include <string.h>

/* Sources: the chat templates of the models named, except
   - llama2: Meta's llama/generation.py, chat_completion, where each question and its answer are a
     separate sequence;
   - mistral: version 1 of mistral-common's docs/usage/tokenizer.md. A SentencePiece vocabulary puts
     a space after a special token, so the space before [INST] is not written here. */
#define EACH(body) "{% for m in messages %}" body "{% endfor %}"
#define PROMPT(text) "{% if add_generation_prompt %}{{ '" text "' }}{% endif %}"
/* Puts the system message into the first message of the user. */
#define SYSTEM_IN_USER(system, text, user, answer)                                                 \
    "{% set ns = namespace(system='') %}" EACH(                                                    \
        "{% set x = " text " %}"                                                                   \
        "{% if m.role == 'system' %}{% set ns.system = " system " %}"                              \
        "{% elif m.role == 'user' %}{{ " user " }}{% set ns.system = '' %}"                        \
        "{% else %}{{ " answer " }}{% endif %}")

static const struct {
    const char *name, *jinja;
} builtin[] = {
    {.name = "chatml", /* Qwen 1 to 2.5, SmolLM, OpenHermes */
     .jinja = EACH("{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}")
         PROMPT("<|im_start|>assistant\\n")},
    {.name = "qwen3", /* removes earlier answers up to </think> */
     .jinja = EACH("{% set x = m.content %}"
                   "{% if m.role == 'assistant' and '</think>' in x %}"
                   "{% set x = x.split('</think>')[-1].lstrip('\\n') %}{% endif %}"
                   "{{ '<|im_start|>' + m.role + '\\n' + x + '<|im_end|>\\n' }}")
         PROMPT("<|im_start|>assistant\\n") "{% if enable_thinking is defined and enable_thinking "
                                            "is false %}"
                                            "{{ '<think>\\n\\n</think>\\n\\n' }}{% endif %}"},
    {.name = "llama2",
     .jinja = SYSTEM_IN_USER("'<<SYS>>\\n' + x + '\\n<</SYS>>\\n\\n'", "m.content | trim",
                             "'[INST] ' + ns.system + x + ' [/INST]'",
                             "' ' + x + ' ' ~ eos_token ~ bos_token")},
    {.name = "llama3",
     .jinja = EACH("{{ '<|start_header_id|>' + m.role + '<|end_header_id|>\\n\\n' + "
                   "m.content | trim + '<|eot_id|>' }}")
         PROMPT("<|start_header_id|>assistant<|end_header_id|>\\n\\n")},
    {.name = "zephyr", /* Zephyr, StableLM Zephyr, TinyLlama */
     .jinja = EACH("{{ '<|' + m.role + '|>\\n' + m.content ~ eos_token + '\\n' }}")
         PROMPT("<|assistant|>\\n")},
    {.name = "phi3",
     .jinja = EACH("{{ '<|' + m.role + '|>\\n' + m.content + '<|end|>\\n' }}")
         PROMPT("<|assistant|>\\n")},
    {.name = "gemma", /* Gemma 1 to 3 */
     .jinja = SYSTEM_IN_USER("x + '\\n\\n'", "m.content | trim",
                             "'<start_of_turn>user\\n' + ns.system + x + '<end_of_turn>\\n'",
                             "'<start_of_turn>model\\n' + x + '<end_of_turn>\\n'")
         PROMPT("<start_of_turn>model\\n")},
    {.name = "mistral",
     .jinja = SYSTEM_IN_USER("x + '\\n\\n'", "m.content", "'[INST] ' + ns.system + x + ' [/INST]'",
                             "' ' + x ~ eos_token")},
};

const char *tft_chat_builtin(const char *name)
{
    for (size_t i = 0; i < sizeof builtin / sizeof *builtin; i++)
        if (strcmp(builtin[i].name, name) == 0)
            return builtin[i].jinja;
    return NULL;
}

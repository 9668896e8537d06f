#include "dialect.h"

static const char *anthropic_type(int status)
{
    switch (status) {
    case 401: return "authentication_error";
    case 403: return "permission_error";
    case 404: return "not_found_error";
    case 429: return "rate_limit_error";
    case 500: return "api_error";
    case 503: return "overloaded_error";
    default: return "invalid_request_error";
    }
}

json_t *dialect_error(enum dialect d, bool streaming, int status, const char *type, json_t *text)
{
    if (d == DIALECT_OLLAMA)
        return json_pack("{s:o}", "error", text);
    if (d == DIALECT_ANTHROPIC)
        return json_pack("{s:s,s:{s:s,s:o}}", "type", "error", "error", "type",
                         anthropic_type(status), "message", text);
    if (d == DIALECT_RESPONSES && streaming)
        return json_pack("{s:s,s:s,s:o,s:n}", "type", "error", "code", type, "message", text,
                         "param");
    return json_pack("{s:{s:i,s:o,s:s,s:n}}", "error", "code", status, "message", text, "type",
                     type, "param");
}

const char *dialect_no_memory(enum dialect d, bool streaming)
{
    if (d == DIALECT_OLLAMA)
        return "{\"error\":\"out of memory\"}";
    if (d == DIALECT_ANTHROPIC)
        return "{\"type\":\"error\",\"error\":{\"type\":\"api_error\","
               "\"message\":\"out of memory\"}}";
    if (d == DIALECT_RESPONSES && streaming)
        return "{\"type\":\"error\",\"code\":\"server_error\","
               "\"message\":\"out of memory\",\"param\":null}";
    return "{\"error\":{\"code\":500,\"message\":\"out of memory\","
           "\"type\":\"server_error\",\"param\":null}}";
}

const char *dialect_before(enum dialect d)
{
    switch (d) {
    case DIALECT_OLLAMA: return "";
    case DIALECT_OPENAI: return "data: ";
    default: return "event: error\ndata: ";
    }
}

const char *dialect_after(enum dialect d) { return d == DIALECT_OLLAMA ? "\n" : "\n\n"; }

"""The C interface, as ctypes has it: structs, functions, and where the libraries are.

Everything here stands for a declaration in tuffet.h, tuffet_chat.h or tuffet_quantize.h, which say
what it means; the test abi compares the structs with a C compiler's.
"""
import ctypes
import ctypes.util
import os
import sys
from ctypes import (CFUNCTYPE, POINTER, Structure, c_bool, c_char, c_char_p, c_double, c_float,
                    c_int, c_int32, c_int64, c_size_t, c_uint, c_uint8, c_uint32, c_uint64,
                    c_void_p)
from typing import Any

# enum tft_status
(OK, ERR_ARG, ERR_NOMEM, ERR_IO, ERR_FORMAT, ERR_UNSUPPORTED, ERR_FULL, ERR_DEVICE, ERR_NUMBERS,
 ERR_CANCELLED) = range(10)
ADD_BOS, PARSE_SPECIAL, CONTINUE, ADD_EOS = 1, 2, 4, 8
(POOLING_NONE, POOLING_MEAN, POOLING_LAST, POOLING_OTHER, POOLING_CLS, POOLING_RANK,
 POOLING_TOKENS) = range(7)
TEXT_MAX = 4096
IDENTITY = 49
# the first number of the version: a library with another one has another interface
SONAME = 1
GBNF, REGEX = range(2)

PROGRESS = CFUNCTYPE(None, c_void_p, c_double)
GOES_ON = CFUNCTYPE(c_bool, c_void_p, c_double)
KEEP = CFUNCTYPE(c_bool, c_void_p, c_uint64, c_int32)
STEP = CFUNCTYPE(c_bool, c_void_p, c_char_p, c_double)
NOTE = CFUNCTYPE(None, c_void_p, c_char_p)


class tft_error(Structure):
    _fields_ = [("code", c_int), ("os", c_int), ("offset", c_uint64), ("msg", c_char * 256),
                ("reserved", c_uint64 * 4)]


class tft_model_opts(Structure):
    _fields_ = [("size", c_size_t), ("allocator", c_void_p), ("tokenizer", c_char_p),
                ("weights", c_int), ("vocab_only", c_bool), ("n_threads", c_int),
                ("progress", PROGRESS), ("progress_user", c_void_p), ("device", c_char_p),
                ("gpu_layers", c_uint32), ("tokenizer_data", c_void_p),
                ("tokenizer_size", c_size_t), ("ignore_keys", c_char_p),
                ("experts_bytes", c_uint64), ("predictor", c_bool)]


class tft_model_info(Structure):
    _fields_ = [("size", c_size_t), ("arch", c_char_p), ("name", c_char_p),
                ("n_params", c_uint64), ("weight_bytes", c_uint64), ("matmul_macs", c_uint64),
                ("kv_width", c_uint64), ("n_vocab", c_uint32), ("n_ctx", c_uint32),
                ("n_embd", c_uint32), ("n_layer", c_uint32), ("n_head", c_uint32),
                ("n_head_kv", c_uint32), ("head_dim", c_uint32), ("n_ff", c_uint32),
                ("weights", c_int), ("n_prefix", c_uint32), ("prefix_bos", c_bool),
                ("state_bytes", c_uint64), ("n_expert", c_uint32), ("n_expert_used", c_uint32),
                ("n_device", c_uint32), ("pooling", c_int), ("add_eos", c_bool),
                ("encoder", c_bool), ("kv", c_char_p), ("file_type", c_char_p)]


class tft_span(Structure):
    _fields_ = [("begin", c_size_t), ("end", c_size_t)]


class tft_text(Structure):
    _fields_ = [("started", c_bool), ("held", c_uint8), ("bytes", c_uint8 * 3),
                ("reserved", c_uint8 * 11)]


class tft_prefix_info(Structure):
    _fields_ = [("size", c_size_t), ("name", c_char_p), ("system", c_char_p),
                ("tokens", POINTER(c_int32)), ("n_tokens", c_uint32), ("positions", c_uint32)]


class tft_lora_use(Structure):
    _fields_ = [("lora", c_void_p), ("scale", c_float), ("reserved", c_uint64 * 2)]


class tft_session_opts(Structure):
    _fields_ = [("size", c_size_t), ("allocator", c_void_p), ("capacity", c_uint32),
                ("n_batch", c_uint32), ("n_logits", c_uint32), ("n_threads", c_int),
                ("slide", c_bool), ("kv", c_char_p), ("keep", KEEP), ("keep_user", c_void_p),
                ("prefix", c_char_p), ("progress", GOES_ON), ("progress_user", c_void_p),
                ("checkpoints", c_uint32), ("n_hidden", c_uint32), ("no_logits", c_bool),
                ("lookup", c_uint32), ("draft", c_void_p), ("count_ends", c_bool),
                ("batch", c_void_p), ("loras", POINTER(tft_lora_use)), ("n_loras", c_uint32)]


class tft_ends(Structure):
    _fields_ = [("numbers", c_uint64), ("at_ends", c_uint64), ("reserved", c_uint64 * 2)]


class tft_batch_opts(Structure):
    _fields_ = [("size", c_size_t), ("allocator", c_void_p), ("n_sessions", c_uint32),
                ("n_tokens", c_uint32), ("n_threads", c_int)]


class tft_step(Structure):
    _fields_ = [("session", c_void_p), ("tokens", POINTER(c_int32)), ("n", c_size_t),
                ("status", c_int), ("reserved", c_uint64 * 2)]


class tft_embedder_opts(Structure):
    _fields_ = [("size", c_size_t), ("allocator", c_void_p), ("pooling", c_int), ("raw", c_bool),
                ("n_dims", c_uint32), ("max_text", c_uint32), ("n_tokens", c_uint32),
                ("n_threads", c_int), ("progress", GOES_ON), ("progress_user", c_void_p)]


class tft_embedder_info(Structure):
    _fields_ = [("size", c_size_t), ("pooling", c_int), ("width", c_uint32),
                ("n_types", c_uint32), ("max_text", c_uint32), ("n_tokens", c_uint32)]


class tft_text_tokens(Structure):
    _fields_ = [("ids", POINTER(c_int32)), ("types", POINTER(c_uint8)), ("n", c_size_t),
                ("reserved", c_uint64 * 2)]


class tft_sampler_more(Structure):
    _fields_ = [("size", c_size_t), ("dry_multiplier", c_float), ("dry_base", c_float),
                ("dry_allowed_length", c_uint32), ("dry_last", c_uint32),
                ("dry_breakers", POINTER(c_int32)), ("n_dry_breakers", c_uint32),
                ("xtc_probability", c_float), ("xtc_threshold", c_float), ("typical_p", c_float),
                ("top_n_sigma", c_float), ("mirostat_tau", c_float), ("mirostat_eta", c_float),
                ("dynatemp_range", c_float), ("dynatemp_exponent", c_float)]


class tft_sampler(Structure):
    _fields_ = [("temperature", c_float), ("top_k", c_int32), ("top_p", c_float),
                ("min_p", c_float), ("repeat_penalty", c_float), ("repeat_last", c_int32),
                ("seed", c_uint64), ("grammar", c_void_p), ("more", POINTER(tft_sampler_more)),
                ("mirostat_mu", c_float), ("min_tokens", c_uint32), ("reserved", c_uint64 * 4)]


class tft_choice(Structure):
    _fields_ = [("id", c_int32), ("logprob", c_float)]


class tft_chat_message(Structure):
    _fields_ = [("role", c_char_p), ("text", c_char_p), ("n", c_size_t),
                ("reserved", c_uint64 * 2)]


class tft_chat_input(Structure):
    _fields_ = [("size", c_size_t), ("message", POINTER(tft_chat_message)),
                ("n_message", c_size_t), ("json", c_char_p), ("n_json", c_size_t),
                ("no_prompt", c_bool), ("answer", c_char_p), ("n_answer", c_size_t),
                ("bos", c_char_p), ("eos", c_char_p), ("has_time", c_bool), ("time", c_int64),
                ("max_steps", c_uint64), ("max_output", c_size_t), ("max_memory", c_size_t),
                ("max_depth", c_uint32), ("read_arguments", c_bool),
                ("continue_last", c_bool)]


class tft_chat_text(Structure):
    _fields_ = [("p", c_void_p), ("n", c_size_t), ("trusted", POINTER(tft_span)),
                ("n_trusted", c_size_t), ("reserved", c_uint64 * 2)]


class tft_quantize_system(Structure):
    _fields_ = [("name", c_char_p), ("text", c_char_p), ("reserved", c_uint64 * 2)]


class tft_quantize_plan(Structure):
    _fields_ = [("size", c_size_t), ("disk", c_uint64), ("imported", c_uint64),
                ("file", c_uint64), ("memory", c_uint64), ("operations", c_double)]


PLAN = CFUNCTYPE(c_bool, c_void_p, POINTER(tft_quantize_plan))


class tft_quantize_lora(Structure):
    _fields_ = [("path", c_char_p), ("scale", c_float), ("reserved", c_uint64 * 2)]


class tft_quantize_opts(Structure):
    _fields_ = [("size", c_size_t), ("tokenizer", c_char_p), ("n_threads", c_int),
                ("bits", c_char_p), ("bits_search", c_char_p), ("group", c_uint32),
                ("rounding", c_int), ("rotate", c_int), ("smooth", c_float),
                ("dynamic", c_char_p), ("calib", c_char_p), ("n_calib", c_size_t),
                ("calib_name", c_char_p), ("special", c_bool), ("calib_tokens", c_uint32),
                ("calib_window", c_uint32), ("format", c_char_p), ("time", c_int64),
                ("intact", c_int), ("intact_text", c_char_p), ("intact_tokens", c_char_p),
                ("prefix_bits", c_uint32), ("system", POINTER(tft_quantize_system)),
                ("n_system", c_size_t), ("cushion", c_int), ("cushion_max", c_uint32),
                ("cushion_sample", c_uint32), ("cushion_tau", c_float),
                ("cushion_cost", c_float), ("tune", c_int), ("tune_epochs", c_uint32),
                ("tune_rate", c_float), ("tune_lambda", c_float), ("kv", c_char_p),
                ("kv_search", c_char_p), ("progress", STEP), ("note", NOTE), ("user", c_void_p),
                ("ignore_keys", c_char_p), ("plan", PLAN),
                ("loras", POINTER(tft_quantize_lora)), ("n_loras", c_size_t),
                ("gguf", c_char_p)]


class tft_quantize_loss(Structure):
    _fields_ = [("group", c_char_p), ("tokens", c_uint32), ("floats", c_double),
                ("file", c_double), ("divergence", c_double), ("same", c_double),
                ("reserved", c_uint64 * 2)]


class tft_quantize_input(Structure):
    _fields_ = [("name", c_char * 32), ("per_token", c_bool), ("zero", c_int32),
                ("scale", c_float), ("min", c_float), ("max", c_float), ("error", c_double),
                ("reserved", c_uint64 * 2)]


class tft_quantize_result(Structure):
    _fields_ = [("size", c_size_t), ("n_tokens", c_size_t), ("window", c_uint32),
                ("n_prefix", c_uint32), ("prefix", POINTER(c_int32)),
                ("check", POINTER(tft_quantize_loss)), ("n_check", c_size_t),
                ("input", POINTER(tft_quantize_input)), ("n_input", c_size_t),
                ("bits", c_char_p), ("kv", c_char_p), ("report", c_char_p), ("json", c_char_p)]


class tft_import_opts(Structure):
    _fields_ = [("size", c_size_t), ("type", c_int), ("no_tokenizer", c_bool),
                ("progress", STEP), ("user", c_void_p), ("ignore_keys", c_char_p),
                ("note", NOTE)]


IDS = POINTER(c_int32)
ERR = POINTER(tft_error)
OUT = POINTER(c_void_p)
COUNT = POINTER(c_size_t)

# Function: what it returns, what it takes. Models, sessions and the like are c_void_p.
CORE = {
    "tft_status_text": (c_char_p, c_int),
    "tft_version": (c_char_p,),
    "tft_feature": (c_char_p, c_size_t),
    "tft_cpu_name": (c_char_p,),
    "tft_cpu_threads": (c_int,),
    "tft_model_open": (c_int, OUT, c_char_p, POINTER(tft_model_opts), ERR),
    "tft_model_close": (None, c_void_p),
    "tft_model_describe": (None, c_void_p, POINTER(tft_model_info)),
    "tft_model_chat_template": (c_char_p, c_void_p),
    "tft_model_tool_template": (c_char_p, c_void_p),
    "tft_model_prompt": (c_void_p, c_void_p, c_char_p, COUNT),
    "tft_tokenize": (c_int, c_void_p, c_char_p, c_size_t, c_uint, IDS, c_size_t, COUNT),
    "tft_tokenize_pair": (c_int, c_void_p, c_char_p, c_size_t, c_char_p, c_size_t, c_uint, IDS,
                          POINTER(c_uint8), c_size_t, COUNT),
    "tft_token_text": (c_void_p, c_void_p, c_int32, c_bool, COUNT),
    "tft_token_bos": (c_int32, c_void_p),
    "tft_token_eos": (c_int32, c_void_p),
    "tft_token_fim": (c_int32, c_void_p, c_int),
    "tft_token_ends": (c_bool, c_void_p, c_int32),
    "tft_text_push": (c_size_t, POINTER(tft_text), c_void_p, c_int32, c_char_p),
    "tft_prefix_describe": (c_int, c_void_p, c_size_t, POINTER(tft_prefix_info)),
    "tft_prefix_held": (c_size_t, c_void_p, c_char_p, IDS, c_size_t),
    "tft_prefix_best": (c_char_p, c_void_p, IDS, c_size_t),
    "tft_kv_bytes": (c_size_t, c_void_p, c_char_p, ERR),
    "tft_lora_open": (c_int, OUT, c_void_p, c_char_p, ERR),
    "tft_lora_close": (None, c_void_p),
    "tft_session_bytes": (c_size_t, c_void_p, POINTER(tft_session_opts), ERR),
    "tft_session_open": (c_int, OUT, c_void_p, POINTER(tft_session_opts), ERR),
    "tft_session_close": (None, c_void_p),
    "tft_prefill": (c_int, c_void_p, IDS, c_size_t),
    "tft_decode": (c_int, c_void_p, c_int32),
    "tft_prompt_end": (None, c_void_p),
    "tft_sync": (c_int, c_void_p, IDS, c_size_t),
    "tft_rewind": (c_int, c_void_p, c_size_t),
    "tft_cancel": (None, c_void_p),
    "tft_session_threads": (c_int, c_void_p, c_int),
    "tft_session_error": (ERR, c_void_p),
    "tft_pos": (c_size_t, c_void_p),
    "tft_guessed": (c_uint64, c_void_p),
    "tft_session_ends": (c_bool, c_void_p, POINTER(tft_ends)),
    "tft_capacity": (c_size_t, c_void_p),
    "tft_tokens": (IDS, c_void_p),
    "tft_logits": (POINTER(c_float), c_void_p, c_size_t),
    "tft_hidden": (POINTER(c_float), c_void_p, c_size_t),
    "tft_batch_open": (c_int, OUT, c_void_p, POINTER(tft_batch_opts), ERR),
    "tft_batch_close": (None, c_void_p),
    "tft_step": (c_int, c_void_p, POINTER(tft_step), c_size_t),
    "tft_embedder_open": (c_int, OUT, c_void_p, POINTER(tft_embedder_opts), ERR),
    "tft_embedder_close": (None, c_void_p),
    "tft_embedder_describe": (None, c_void_p, POINTER(tft_embedder_info)),
    "tft_embed": (c_int, c_void_p, POINTER(tft_text_tokens), c_size_t, POINTER(c_float)),
    "tft_rerank": (c_int, c_void_p, POINTER(tft_text_tokens), c_size_t, POINTER(c_float)),
    "tft_embedder_cancel": (None, c_void_p),
    "tft_embedder_error": (ERR, c_void_p),
    "tft_session_save_bytes": (c_size_t, c_void_p, POINTER(tft_sampler)),
    "tft_session_save_mem": (c_int, c_void_p, POINTER(tft_sampler), c_void_p, c_size_t, ERR),
    "tft_session_save": (c_int, c_void_p, POINTER(tft_sampler), c_char_p, ERR),
    "tft_session_load_mem": (c_int, c_void_p, POINTER(tft_sampler), c_char_p, c_size_t, ERR),
    "tft_session_load": (c_int, c_void_p, POINTER(tft_sampler), c_char_p, ERR),
    "tft_session_copy": (c_int, c_void_p, c_void_p, ERR),
    "tft_lexicon_open": (c_int, OUT, c_void_p, ERR),
    "tft_lexicon_close": (None, c_void_p),
    "tft_grammar_open": (c_int, OUT, c_void_p, c_int, c_char_p, c_size_t, ERR),
    "tft_grammar_close": (None, c_void_p),
    "tft_grammar_begin": (c_int, OUT, c_void_p, ERR),
    "tft_grammar_end": (None, c_void_p),
    "tft_grammar_is_done": (c_bool, c_void_p),
    "tft_sample": (c_int32, POINTER(tft_sampler), c_void_p),
    "tft_likeliest": (c_size_t, c_void_p, c_void_p, POINTER(tft_choice), c_size_t),
    "tft_logprob": (c_float, c_void_p, c_void_p, c_int32),
}
CHAT = {
    "tft_chat_open": (c_int, OUT, c_char_p, c_size_t, ERR),
    "tft_chat_close": (None, c_void_p),
    "tft_chat_render_for": (c_int, POINTER(tft_chat_text), c_void_p, c_void_p,
                            POINTER(tft_chat_input), ERR),
    "tft_chat_dropped": (c_int, COUNT, COUNT, POINTER(tft_chat_text), POINTER(tft_chat_input),
                         ERR),
    "tft_chat_text_free": (None, POINTER(tft_chat_text)),
    "tft_chat_tokenize": (c_int, POINTER(tft_chat_text), c_void_p, IDS, c_size_t, COUNT,
                          POINTER(c_bool)),
    "tft_chat_schema": (c_int, POINTER(tft_chat_text), c_char_p, c_size_t, c_uint, ERR),
}


QUANTIZE = {
    "tft_quantize": (c_int, c_char_p, c_char_p, POINTER(tft_quantize_opts),
                     POINTER(POINTER(tft_quantize_result)), ERR),
    "tft_quantize_free": (None, POINTER(tft_quantize_result)),
    "tft_import": (c_int, c_char_p, c_char_p, POINTER(tft_import_opts), POINTER(c_uint64), ERR),
}


def open_library(name: str, variable: str) -> ctypes.CDLL:
    """Opens the file that the environment variable names, else the wheel's, else the one that the
    system's linker finds."""
    path = os.environ.get(variable)
    own = os.path.join(os.path.dirname(__file__), "lib", f"lib{name}.so.{SONAME}")
    if not path and os.path.exists(own):
        path = own
    if not path:
        path = f"lib{name}.so.{SONAME}"
        other = {"darwin": f"lib{name}.{SONAME}.dylib", "win32": f"{name}-{SONAME}.dll"}
        if sys.platform in other:
            path = ctypes.util.find_library(name) or other[sys.platform]
    try:
        return ctypes.CDLL(path)
    except OSError as e:
        raise ImportError(f"{path}: {e}; install tuffet's libraries (meson install), or set "
                          f"{variable} to the path of lib{name}") from e


def declare(library: ctypes.CDLL, functions: "dict[str, Any]") -> None:
    for name, (result, *arguments) in functions.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments


lib = open_library("tuffet", "TUFFET_LIBRARY")
declare(lib, CORE)
_chat = None
_quantize = None


def chat() -> ctypes.CDLL:
    """libtuffet-chat, opened when it is first needed."""
    global _chat
    if _chat is None:
        library = open_library("tuffet-chat", "TUFFET_CHAT_LIBRARY")
        declare(library, CHAT)
        _chat = library
    return _chat


def quantize() -> ctypes.CDLL:
    """libtuffet-quantize, likewise."""
    global _quantize
    if _quantize is None:
        library = open_library("tuffet-quantize", "TUFFET_QUANTIZE_LIBRARY")
        declare(library, QUANTIZE)
        _quantize = library
    return _quantize

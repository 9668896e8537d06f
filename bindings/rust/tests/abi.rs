//! The structs of `sys` have the sizes, offsets and names of the C header's.
#![cfg(target_pointer_width = "64")]
use std::collections::BTreeMap;
use tuffet::sys;

/// The table of the repository, which its own test compares with the header.
fn table() -> BTreeMap<String, (usize, BTreeMap<String, usize>)> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/abi/lp64.txt");
    let text = std::fs::read_to_string(path).unwrap();
    let (mut all, mut name) = (BTreeMap::new(), String::new());
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("struct ") {
            let (n, size) = rest.split_once(": ").unwrap();
            name = n.to_string();
            let size = size.strip_suffix(" bytes").unwrap().parse().unwrap();
            all.insert(name.clone(), (size, BTreeMap::new()));
        } else if let Some((left, field)) =
            line.strip_prefix("  ").and_then(|l| l.rsplit_once(": "))
        {
            let offset = left.split_whitespace().next().unwrap().parse().unwrap();
            let (_, fields): &mut (usize, BTreeMap<_, _>) = all.get_mut(&name).unwrap();
            fields.insert(field.to_string(), offset);
        }
    }
    all
}

macro_rules! check {
    ($table:ident, $name:ident { $($field:ident)* }) => {{
        let (size, mut fields) = $table[stringify!($name)].clone();
        assert_eq!(std::mem::size_of::<sys::$name>(), size, stringify!($name));
        let place = std::mem::MaybeUninit::<sys::$name>::uninit();
        let start = place.as_ptr();
        $(
            let offset = unsafe { std::ptr::addr_of!((*start).$field) } as usize - start as usize;
            assert_eq!(fields.remove(stringify!($field)), Some(offset), stringify!($name.$field));
        )*
        assert!(fields.is_empty(), "{}: not checked: {fields:?}", stringify!($name));
    }};
}

#[test]
fn structs_are_those_of_the_header() {
    let t = table();
    check!(t, tft_error { code os offset msg reserved });
    check!(t, tft_model_opts { size allocator tokenizer weights vocab_only n_threads progress
        progress_user device gpu_layers tokenizer_data tokenizer_size ignore_keys
        experts_bytes predictor });
    check!(t, tft_model_info { size arch name n_params weight_bytes matmul_macs kv_width n_vocab
        n_ctx n_embd n_layer n_head n_head_kv head_dim n_ff weights n_prefix prefix_bos state_bytes
        n_expert n_expert_used n_device pooling add_eos encoder kv file_type });
    check!(t, tft_text { started held bytes reserved });
    check!(t, tft_session_opts { size allocator capacity n_batch n_logits n_threads slide kv keep
        keep_user prefix progress progress_user checkpoints n_hidden no_logits
        lookup draft count_ends batch loras n_loras });
    check!(t, tft_sampler { temperature top_k top_p min_p repeat_penalty repeat_last seed grammar
        more mirostat_mu min_tokens reserved });
    check!(t, tft_sampler_more { size dry_multiplier dry_base dry_allowed_length dry_last
        dry_breakers n_dry_breakers xtc_probability xtc_threshold typical_p top_n_sigma mirostat_tau
        mirostat_eta dynatemp_range dynatemp_exponent });
    check!(t, tft_choice { id logprob });
}

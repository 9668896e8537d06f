//! With the model that ships, or the one that TUFFET_TEST_MODEL names.
use std::process::Command;
use tuffet::{
    GrammarKind, Model, ModelOptions, More, Sampler, SessionOptions, Status, Tokenize, Weights,
};

fn path() -> String {
    std::env::var("TUFFET_TEST_MODEL").unwrap_or_else(|_| {
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/demo/stories2M.gguf").to_string()
    })
}

fn open() -> Model {
    Model::open(path()).unwrap()
}

const PROMPT: &str = "Once upon a time";
const BOS: Tokenize =
    Tokenize { add_bos: true, add_eos: false, continues: false, parse_special: false };

fn generate(session: &mut tuffet::Session, sampler: &mut Sampler, n: usize) -> String {
    session.generate(PROMPT, n, sampler).unwrap().map(Result::unwrap).collect()
}

#[test]
fn text_is_that_of_the_program() {
    let model = open();
    let mut session = model.session().unwrap();
    let plain = Sampler { repeat_penalty: 1.0, ..Sampler::default() };
    let hot_with = |seed| Sampler { temperature: 1.3, seed, ..Sampler::default() };
    let few = Sampler { min_p: 0.3, ..hot_with(11) };
    let cut =
        Sampler { top_k: 40, top_p: 0.7, min_p: 0.02, temperature: 1.5, ..Sampler::default() };
    let new = Sampler { repeat_penalty: 1.3, repeat_last: 20, ..Sampler::default() };
    let dry = More { dry_multiplier: 1.5, dry_breakers: vec![3, 5], ..More::default() };
    let spread = More { xtc_probability: 0.5, typical_p: 0.6, mirostat_eta: 0.2, ..dry };
    let steady = More { mirostat_tau: 3.0, ..spread.clone() };
    assert_ne!(
        generate(&mut session, &mut hot_with(7), 60),
        generate(&mut session, &mut Sampler { more: spread, ..hot_with(7) }, 60)
    );
    let mut surprised = Sampler { more: steady, ..hot_with(7) };
    generate(&mut session, &mut surprised, 60);
    assert!(surprised.mirostat_mu != 0.0);
    for mut z in [plain, hot_with(7), few, cut, new] {
        let options = format!(
            "--temp {} --seed {} --top-k {} --top-p {} --min-p {} --repeat-penalty {} --repeat-last {}",
            z.temperature,
            z.seed,
            z.top_k,
            if z.top_p > 0.0 { z.top_p } else { 1.0 }, // there, 0 is the most likely token
            z.min_p,
            z.repeat_penalty,
            if z.repeat_last > 0 { z.repeat_last } else { 64 }
        );
        let text = generate(&mut session, &mut z, 60);
        assert!(text.len() > 60, "{text:?}");
        let program = match std::env::var("TUFFET_PROGRAM") {
            Ok(program) => program,
            Err(_) => continue,
        };
        let done = Command::new(program)
            .args(["run", &path(), "-p", PROMPT, "-n", "60"])
            .args(options.split(' '))
            .output()
            .unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let want = String::from_utf8(done.stdout).unwrap();
        assert_eq!(text.trim_end(), want.trim_end(), "{options}");
    }
}

#[test]
fn a_space_in_front_of_a_word_stays() {
    let model = open();
    let mut session = model.session().unwrap();
    let mut sampler = Sampler::default();
    let text: String =
        session.generate("Once upon a", 1, &mut sampler).unwrap().map(Result::unwrap).collect();
    assert_eq!(text, " time");
}

#[test]
fn what_a_prefix_holds_is_not_fed() {
    let program = match std::env::var("TUFFET_PROGRAM") {
        Ok(program) => program,
        Err(_) => return,
    };
    let file = std::env::temp_dir().join(format!("tuffet-{}.gguf", std::process::id()));
    let done = Command::new(program)
        .args(["quantize", &path(), "-o"])
        .arg(&file)
        .args(["--calib-tokens", "512", "--intact", "bos", "--template", "chatml"])
        .args(["--intact-system", "short=Be short."])
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let model = Model::open(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    assert_eq!(model.info().n_prefix, 1);
    let prompt = "<|im_start|>system\nBe short.<|im_end|>\n<|im_start|>user\nOnce";
    let pos = |prefix: Option<&str>| {
        let options = SessionOptions { prefix: prefix.map(Into::into), ..Default::default() };
        let mut session = model.session_with(&options).unwrap();
        assert_eq!(session.generate(prompt, 0, &mut Sampler::default()).unwrap().count(), 0);
        session.pos()
    };
    // the prefix has what conversations begin with: all but "Once"
    let last = model.tokenize("Once", Tokenize { continues: true, ..Tokenize::default() }).unwrap();
    assert_eq!((pos(Some("short")), pos(None) > 10), (last.len(), true));
}

#[test]
fn tokens_are_text_again() {
    let model = open();
    let ids = model.tokenize(PROMPT, BOS).unwrap();
    assert_eq!(Some(ids[0]), model.bos());
    assert_eq!(model.fim(), None);
    assert_eq!(model.detokenize(&ids), PROMPT);
    assert_eq!(model.tokenize(PROMPT, Tokenize::default()).unwrap(), ids[1..]);
    assert!(model.token_ends(model.eos().unwrap()) && !model.token_ends(ids[1]));
    // characters that are not in the vocabulary are a token for each byte
    for text in ["", "\u{ff}", &"\u{1F600}".repeat(30)] {
        assert_eq!(model.detokenize(&model.tokenize(text, BOS).unwrap()), text);
    }
    let named = Tokenize { parse_special: true, ..Tokenize::default() };
    assert!(model.tokenize("</s>", named).unwrap().contains(&model.eos().unwrap()));
    assert!(!model.tokenize("</s>", Tokenize::default()).unwrap().contains(&model.eos().unwrap()));
}

#[test]
fn guesses_change_nothing_but_time() {
    let model = open();
    let options = SessionOptions { lookup: 8, threads: 1, ..Default::default() };
    let mut guessing = model.session_with(&options).unwrap();
    let mut plain = model.session().unwrap();
    for token in [5, 6, 7].repeat(20) {
        guessing.decode(token).unwrap();
        plain.decode(token).unwrap();
        assert_eq!(guessing.logits(0).unwrap(), plain.logits(0).unwrap());
    }
    assert_eq!(plain.guessed(), 0);
    assert!(guessing.guessed() > 20);
}

#[test]
fn logits_do_not_depend_on_how_tokens_come() {
    let model = open();
    let info = model.info();
    assert_eq!((info.arch.as_str(), info.n_layer, info.n_vocab), ("llama", 8, 2944));
    let ids = model.tokenize("Once upon a time, there was a cat", BOS).unwrap();
    let options = SessionOptions { n_logits: 2, n_hidden: 1, threads: 1, ..Default::default() };
    let mut at_once = model.session_with(&options).unwrap();
    assert!(at_once.logits(0).is_none());
    at_once.prefill(&ids).unwrap();
    let mut one_by_one = model.session().unwrap();
    for &id in &ids {
        one_by_one.decode(id).unwrap();
    }
    assert_eq!(at_once.logits(0).unwrap(), one_by_one.logits(0).unwrap());
    assert_eq!(at_once.logits(0).unwrap().len(), info.n_vocab);
    assert_eq!(at_once.hidden(0).unwrap().len(), info.n_embd);
    assert!(at_once.logits(2).is_none() && one_by_one.hidden(0).is_none());
    assert_eq!(one_by_one.tokens(), ids);

    let logits = at_once.logits(0).unwrap().to_vec();
    let before = at_once.logits(1).unwrap().to_vec();
    let first =
        (0..logits.len()).fold(0, |best, i| if logits[i] > logits[best] { i } else { best });
    let likeliest = at_once.likeliest(3);
    assert_eq!((likeliest.len(), likeliest[0].0), (3, first as i32));
    assert_eq!(at_once.logprob(likeliest[0].0), likeliest[0].1);
    assert_eq!(at_once.sample(&mut Sampler::default()).unwrap(), Some(first as i32));

    at_once.rewind(ids.len() - 1).unwrap();
    assert_eq!(
        (at_once.pos(), at_once.sample(&mut Sampler::default()).unwrap()),
        (ids.len() - 1, None)
    );
    at_once.sync(&ids[..ids.len() - 1]).unwrap();
    assert_eq!(at_once.logits(0).unwrap(), before);
}

#[test]
fn saved_and_copied_sessions_go_on_alike() {
    let model = open();
    let mut session = model.session().unwrap();
    let mut sampler = Sampler { temperature: 0.9, seed: 3, ..Sampler::default() };
    generate(&mut session, &mut sampler, 10);
    let file = std::env::temp_dir().join(format!("tuffet-{}.session", std::process::id()));
    session.save(&sampler, &file).unwrap();
    let (mut copy, mut loaded) = (model.session().unwrap(), model.session().unwrap());
    copy.copy_from(&session).unwrap();
    let mut again = Sampler::default();
    loaded.load(&mut again, &file).unwrap();
    std::fs::remove_file(&file).unwrap();
    assert_eq!((again.seed, again.temperature), (sampler.seed, 0.9));
    assert_eq!(copy.logits(0), session.logits(0));
    assert_eq!(loaded.tokens(), session.tokens());
    assert_eq!(loaded.sample(&mut again).unwrap(), session.sample(&mut sampler).unwrap());
    assert_eq!(loaded.load(&mut again, &file).unwrap_err().status, Status::Io);
}

#[test]
fn a_grammar_is_obeyed() {
    let model = open();
    let grammar = model.grammar(GrammarKind::Regex, "[0-9]{3}").unwrap();
    let mut session = model.session().unwrap();
    let mut sampler = Sampler { temperature: 1.0, seed: 5, ..Sampler::default() };
    sampler.grammar = Some(grammar.begin().unwrap());
    let text = generate(&mut session, &mut sampler, 20);
    assert!(text.len() == 3 && text.bytes().all(|b| b.is_ascii_digit()), "{text:?}");
    let other = open();
    let wrong = other.session().unwrap().sample(&mut sampler).unwrap_err();
    assert_eq!(wrong.status, Status::Argument);
    let e = model.grammar(GrammarKind::Gbnf, "root ::= (").unwrap_err();
    assert_eq!(e.status, Status::Format);
    assert!(e.to_string().contains("line 1"), "{e}");
}

#[test]
fn sessions_of_several_threads_share_a_model() {
    let model = open();
    let texts: Vec<String> = std::thread::scope(|scope| {
        let started: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(|| generate(&mut model.session().unwrap(), &mut Sampler::default(), 20))
            })
            .collect();
        started.into_iter().map(|t| t.join().unwrap()).collect()
    });
    assert!(texts.iter().all(|t| t == &texts[0]), "{texts:?}");
}

#[test]
fn errors_are_values() {
    let e = Model::open("/no/such/file.gguf").unwrap_err();
    assert_eq!((e.status, e.os), (Status::Io, 2));
    assert!(e.to_string().contains("/no/such/file.gguf"), "{e}");
    assert_eq!(Model::open("a\0b").unwrap_err().status, Status::Argument);
    let wrong = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    assert_eq!(Model::open(wrong).unwrap_err().status, Status::Format);

    let model = open();
    let small = SessionOptions { capacity: 8, ..Default::default() };
    let mut session = model.session_with(&small).unwrap();
    assert_eq!(session.capacity(), 8);
    assert_eq!(session.prefill(&[1; 9]).unwrap_err().status, Status::Full);
    assert_eq!(session.prefill(&[-1]).unwrap_err().status, Status::Argument);
    assert_eq!(session.pos(), 0);
    let text = generate(&mut session, &mut Sampler::default(), 100);
    assert!(!text.is_empty() && session.pos() == 8); // it ends where the session is full
    let wrong = SessionOptions { kv: Some("no-such".into()), ..Default::default() };
    let e = model.session_with(&wrong).unwrap_err();
    assert!(e.status == Status::Argument && e.to_string().contains("no-such"), "{e}");

    let options = ModelOptions { vocab_only: true, weights: Weights::F32, ..Default::default() };
    let words = Model::open_with(path(), &options).unwrap();
    assert_eq!(words.tokenize(PROMPT, BOS).unwrap(), model.tokenize(PROMPT, BOS).unwrap());
    assert_eq!(words.session().unwrap_err().status, Status::Argument);
}

//! Continues a text: cargo run --example generate MODEL TEXT
use std::io::Write;
use tuffet::{Model, Sampler};

fn generate(model: &str, prompt: &str) -> Result<(), Box<dyn std::error::Error>> {
    let model = Model::open(model)?;
    let mut out = std::io::stdout();
    let mut session = model.session()?;
    let mut sampler = Sampler { temperature: 0.8, min_p: 0.05, seed: 1, ..Sampler::default() };
    for text in session.generate(prompt, usize::MAX, &mut sampler)? {
        write!(out, "{}", text?)?;
        out.flush()?;
    }
    writeln!(out)?;
    Ok(())
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if args.len() != 3 {
        eprintln!("usage: generate MODEL TEXT");
        std::process::exit(2);
    }
    if let Err(e) = generate(&args[1], &args[2]) {
        eprintln!("{e}");
        std::process::exit(1);
    }
}

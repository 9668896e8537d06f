//! Finds libtuffet: in the folder `TUFFET_LIB_DIR`, or else by pkg-config.
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    for name in ["TUFFET_LIB_DIR", "PKG_CONFIG", "PKG_CONFIG_PATH", "PKG_CONFIG_LIBDIR"] {
        println!("cargo:rerun-if-env-changed={name}");
    }
    if let Ok(folder) = std::env::var("TUFFET_LIB_DIR") {
        println!("cargo:rustc-link-search=native={folder}");
        println!("cargo:rustc-link-lib=dylib=tuffet");
        return;
    }
    let program = std::env::var("PKG_CONFIG").unwrap_or_else(|_| "pkg-config".into());
    let found = Command::new(&program).args(["--libs", "tuffet"]).output();
    let flags = match found {
        Ok(done) if done.status.success() => String::from_utf8(done.stdout).expect("UTF-8"),
        Ok(done) => panic!("{program}: {}", String::from_utf8_lossy(&done.stderr)),
        Err(e) => panic!("{program}: {e}; or set TUFFET_LIB_DIR to the folder of libtuffet"),
    };
    for flag in flags.split_whitespace() {
        if let Some(folder) = flag.strip_prefix("-L") {
            println!("cargo:rustc-link-search=native={folder}");
        } else if let Some(name) = flag.strip_prefix("-l") {
            println!("cargo:rustc-link-lib=dylib={name}");
        }
    }
}

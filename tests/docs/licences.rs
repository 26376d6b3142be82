//! The licences of everything that is shipped: which crates, under which licence, with which text; and the compiler's own library.
//!
//! The page is written from the lock file, as `cargo metadata` tells of it, and from the crates' own files, with those of the sources
//! of others that they carry. What the compiler brings along has its notices in `rust-library`, copied from the toolchain's
//! `share/doc/rust`, so that no toolchain has to have them. What `deny.toml` does not allow fails here, whether `cargo deny` is installed or not.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// What is shipped is built for it.
const TARGET: &str = "x86_64-unknown-linux-gnu";
const OURS: &str = "ingestd";
/// How the names of files with licences begin.
const FILES: [&str; 5] = ["LICEN", "COPYING", "COPYRIGHT", "UNLICENSE", "NOTICE"];

/// Directories of a crate in which nothing is that is linked.
const UNLINKED: [&str; 7] = ["tests", "test", "examples", "example", "fuzz", "benches", "target"];
/// No crate carries others' sources deeper than this.
const DEEPEST: usize = 8;

/// Sources in other languages that crates carry and build, and under which licence they are taken.
const BUNDLED: [(&str, &str, &str); 5] = [
    (
        "aws-lc-sys",
        "AWS-LC, with parts of BoringSSL, OpenSSL, fiat-crypto, jitterentropy, s2n-bignum, mlkem-native, mldsa-native",
        "ISC AND (Apache-2.0 OR ISC) AND Apache-2.0 AND MIT AND BSD-3-Clause AND (Apache-2.0 OR ISC OR MIT) AND (Apache-2.0 OR ISC OR MIT-0)",
    ),
    ("libmimalloc-sys", "mimalloc", "MIT"),
    ("libsqlite3-sys", "SQLite; SQLCipher is carried, and not built", PUBLIC),
    ("ring", "parts of BoringSSL, OpenSSL, fiat-crypto", "Apache-2.0 AND ISC AND MIT"),
    ("zstd-sys", "zstd, with divsufsort", "(BSD-3-Clause OR GPL-2.0-only) AND MIT"),
];
const PUBLIC: &str = "public domain";
/// Sources that a crate carries for comparison, and does not build.
const UNBUILT: [&str; 1] = ["walkdir"];
/// Files that say in their first lines what no file with a licence says.
const HEADS: [(&str, &str); 2] =
    [("libsqlite3-sys", "sqlite3/sqlite3.h"), ("zstd-sys", "zstd/lib/dictBuilder/divsufsort.c")];

/// What the compiler brings along and links into the program: the standard library, and whose work is in it on our target, by the
/// directories of their notices. The lock file does not know of it, and its version is that of the compiler.
const STANDARD: [(&str, &str, &[&str]); 8] = [
    ("`std`, `core`, `alloc` and the rest of the Rust standard library", "MIT OR Apache-2.0", &["std"]),
    ("– its tables of Unicode", "Unicode-3.0", &["std"]),
    (
        "– compiler_builtins, with libm",
        "MIT AND Apache-2.0 WITH LLVM-exception AND (MIT OR Apache-2.0)",
        &["std", "libm"],
    ),
    (
        "– hashbrown, gimli, addr2line, object",
        "MIT OR Apache-2.0",
        &["hashbrown", "gimli", "addr2line", "object"],
    ),
    ("– libc, cfg-if, rustc-demangle", "MIT OR Apache-2.0", &["libc", "cfg-if", "rustc-demangle"]),
    ("– miniz_oxide", "MIT OR Zlib OR Apache-2.0", &["miniz_oxide"]),
    ("– adler2", "0BSD OR MIT OR Apache-2.0", &["adler2"]),
    ("– memchr", "Unlicense OR MIT", &["memchr"]),
];

/// A crate of somebody else in the program.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Shipped {
    name: String,
    version: String,
    licence: String,
    dir: PathBuf,
}

impl Shipped {
    /// Whose the text in a file is: the crate's, or that of something that it carries.
    fn owner(&self, file: &Path) -> String {
        let within = file.strip_prefix(&self.dir).unwrap().parent().unwrap();
        let at = if within == Path::new("") { String::new() } else { format!(" ({})", within.display()) };
        format!("{} {}{at}", self.name, self.version).trim().to_owned()
    }
}

/// What the compiler brings along, as if it were crates.
fn standard() -> BTreeSet<Shipped> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/docs/rust-library");
    let names: BTreeSet<&str> = STANDARD.iter().flat_map(|(.., names)| names.iter().copied()).collect();
    let there: BTreeSet<String> = std::fs::read_dir(&dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    assert!(names.iter().copied().eq(there.iter().map(String::as_str)), "{names:?} and {there:?}");
    let one = |name: &str| Shipped {
        name: format!("{name} of the Rust standard library"),
        version: String::new(),
        licence: String::new(),
        dir: dir.join(name),
    };
    names.into_iter().map(one).collect()
}

fn metadata() -> Value {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--offline", "--locked", "--format-version", "1", "--filter-platform", TARGET])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_else(|| panic!("no {key} in {value}"))
}

/// What the program is made of: the dependencies that are not only for building or testing it.
fn shipped(metadata: &Value) -> BTreeSet<Shipped> {
    let by_id = |list: &'_ Value| -> BTreeMap<String, Value> {
        list.as_array().unwrap().iter().map(|item| (text(item, "id").to_owned(), item.clone())).collect()
    };
    let (packages, nodes) = (by_id(&metadata["packages"]), by_id(&metadata["resolve"]["nodes"]));
    let root = packages.iter().find(|(_, package)| package["name"] == OURS).unwrap().0;
    let (mut seen, mut open) = (BTreeSet::new(), vec![root.clone()]);
    while let Some(id) = open.pop() {
        if !seen.insert(id.clone()) {
            continue;
        }
        for dependency in nodes[&id]["deps"].as_array().unwrap() {
            let kinds = dependency["dep_kinds"].as_array().unwrap();
            if kinds.iter().any(|kind| kind["kind"].is_null()) {
                open.push(text(dependency, "pkg").to_owned());
            }
        }
    }
    let others = seen.iter().map(|id| &packages[id]).filter(|package| !package["source"].is_null());
    others
        .map(|package| Shipped {
            name: text(package, "name").to_owned(),
            version: text(package, "version").to_owned(),
            licence: text(package, "license").replace(" / ", " OR ").replace('/', " OR "),
            dir: Path::new(text(package, "manifest_path")).parent().unwrap().to_owned(),
        })
        .collect()
}

/// Licences that `deny.toml` allows.
fn allowed() -> BTreeSet<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("deny.toml");
    let file: toml::Table = std::fs::read_to_string(path).unwrap().parse().unwrap();
    let list = file["licenses"]["allow"].as_array().unwrap();
    list.iter().map(|licence| licence.as_str().unwrap().to_owned()).collect()
}

/// Whether an SPDX expression can be satisfied: `AND` needs both sides, `OR` one, `WITH` belongs to what is before it.
fn is_allowed(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace(" WITH ", "+WITH+");
    let mut words: Words = spaced.split_whitespace().map(|word| word.replace("+WITH+", " WITH ")).collect();
    let answer = any(&mut words, allowed);
    assert_eq!(words.pop_front(), None, "{expression} is not understood");
    answer
}

type Words = VecDeque<String>;

fn is_next(words: &mut Words, word: &str) -> bool {
    let is = words.front().is_some_and(|next| next == word);
    if is {
        words.pop_front();
    }
    is
}

fn any(words: &mut Words, allowed: &BTreeSet<String>) -> bool {
    let mut answer = all(words, allowed);
    while is_next(words, "OR") {
        answer |= all(words, allowed);
    }
    answer
}

fn all(words: &mut Words, allowed: &BTreeSet<String>) -> bool {
    let mut answer = one(words, allowed);
    while is_next(words, "AND") {
        answer &= one(words, allowed);
    }
    answer
}

fn one(words: &mut Words, allowed: &BTreeSet<String>) -> bool {
    if is_next(words, "(") {
        let answer = any(words, allowed);
        assert!(is_next(words, ")"), "a parenthesis is missing");
        return answer;
    }
    let licence = words.pop_front().expect("a licence is missing");
    allowed.contains(&licence)
}

/// A text that several crates carry, who says that it is theirs, and who carries it.
#[derive(Debug)]
struct Carried {
    text: String,
    notices: BTreeSet<String>,
    crates: BTreeSet<String>,
}

/// Whether a line says whose it is; the form that is left to be filled in does not.
fn is_notice(line: &str) -> bool {
    let line = line.trim().to_lowercase();
    ((line.starts_with("copyright") && !line.starts_with("copyright:"))
        || line.starts_with("(c)")
        || line.starts_with('©'))
        && !line.contains("yyyy")
        && line.chars().any(|c| c.is_ascii_digit())
}

/// The texts, each once: those that differ in nothing but their notices and their line breaks are one.
fn texts(shipped: &BTreeSet<Shipped>) -> Vec<Carried> {
    let mut texts: BTreeMap<String, Carried> = BTreeMap::new();
    for one in shipped.iter().chain(&standard()) {
        let heads = HEADS.iter().filter(|(name, _)| *name == one.name).map(|(_, file)| one.dir.join(file));
        let heads = heads.map(|path| (head(&read(&path)), path));
        for (file, path) in files(&one.dir).into_iter().map(|path| (read(&path), path)).chain(heads) {
            let (notices, body): (Vec<&str>, Vec<&str>) = file.lines().partition(|line| is_notice(line));
            let words: Vec<String> =
                body.iter().flat_map(|line| line.split_whitespace()).map(str::to_lowercase).collect();
            if words.is_empty() {
                continue;
            }
            let trimmed: Vec<&str> = body.iter().map(|line| line.trim_end()).collect();
            let carried = texts.entry(words.join(" ")).or_insert_with(|| Carried {
                text: trimmed.join("\n").trim_matches('\n').to_owned(),
                notices: BTreeSet::new(),
                crates: BTreeSet::new(),
            });
            carried
                .notices
                .extend(notices.iter().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")));
            carried.crates.insert(one.owner(&path));
        }
    }
    let mut texts: Vec<Carried> = texts.into_values().collect();
    texts.sort_by(|a, b| {
        b.crates
            .len()
            .cmp(&a.crates.len())
            .then_with(|| a.crates.cmp(&b.crates))
            .then_with(|| a.text.cmp(&b.text))
    });
    texts
}

fn read(path: &Path) -> String {
    let bytes = std::fs::read(path).unwrap();
    String::from_utf8_lossy(&bytes).replace('\r', "").replace("```", "'''")
}

/// What the first comment of a source in C says, up to the first line that is only drawn.
fn head(source: &str) -> String {
    let comment = source.strip_prefix("/*").and_then(|rest| rest.split_once("*/")).unwrap().0;
    let lines = comment.lines().take_while(|line| !line.contains("**********"));
    lines.map(|line| line.trim_start_matches([' ', '*'])).collect::<Vec<_>>().join("\n")
}

/// The files of a crate, and of what it carries, that hold licences, in their order.
fn files(dir: &Path) -> Vec<PathBuf> {
    let is_one = |path: &Path| {
        let name = path.file_name().unwrap().to_string_lossy().to_uppercase();
        let ending = path.extension().map(|ending| ending.to_string_lossy().to_lowercase());
        let is_code = ending.is_some_and(|ending| matches!(ending.as_str(), "rs" | "toml" | "c" | "h"));
        !is_code && FILES.iter().any(|begin| name.starts_with(begin))
    };
    let (mut found, mut open) = (Vec::new(), vec![(dir.to_owned(), 0)]);
    while let Some((dir, depth)) = open.pop() {
        assert!(depth <= DEEPEST, "{} is deeper than was thought", dir.display());
        for entry in std::fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            match (path.is_dir(), is_one(&path)) {
                (true, true) => found.extend(files_within(&path)),
                (false, true) => found.push(path),
                (true, false) if is_linked(&path) => open.push((path, depth + 1)),
                _ => {}
            }
        }
    }
    found.sort();
    found
}

fn is_linked(dir: &Path) -> bool {
    let name = dir.file_name().unwrap().to_string_lossy();
    !name.starts_with('.') && !UNLINKED.contains(&name.as_ref())
}

/// Whether there are sources below that no Rust compiler reads.
fn has_other_sources(dir: &Path) -> bool {
    std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).any(|path| {
        let ending = path.extension().map(|ending| ending.to_string_lossy().to_lowercase());
        let is_source = matches!(ending.as_deref(), Some("c" | "cc" | "cpp" | "s" | "asm" | "a" | "o"));
        if path.is_dir() { is_linked(&path) && has_other_sources(&path) } else { is_source }
    })
}

fn files_within(dir: &Path) -> Vec<PathBuf> {
    let paths = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    paths.filter(|path| path.is_file()).collect()
}

fn page(shipped: &BTreeSet<Shipped>) -> String {
    let mut page = format!(
        "# The licences of what is shipped\n\nWritten from `Cargo.lock` and the crates' own files: all that the program `{OURS}` is made of on\n\
         {TARGET}, {} crates of others. Which licences may be among them stands in `deny.toml`.\n\n\
         | crate | version | licence |\n|---|---|---|\n",
        shipped.len()
    );
    for Shipped { name, version, licence, .. } in shipped {
        let _ = writeln!(page, "| {name} | {version} | {licence} |");
    }
    page.push_str(
        "\nSome of them carry sources of others in other languages, which are built and linked with them:\n\n\
         | crate | what it carries | licence |\n|---|---|---|\n",
    );
    for (name, what, licence) in BUNDLED {
        let _ = writeln!(page, "| {name} | {what} | {licence} |");
    }
    page.push_str(
        "\nThe compiler links its own library into the program as well, in the version of the compiler. Copyright The Rust Project Developers and\n\
         others; the notices that `share/doc/rust/COPYRIGHT-library.html` of the toolchain has, as far as they are about this program, and the\n\
         texts of its licences stand below:\n\n| of the compiler | licence |\n|---|---|\n",
    );
    for (what, licence, _) in STANDARD {
        let _ = writeln!(page, "| {what} | {licence} |");
    }
    let bare: Vec<_> = shipped.iter().filter(|one| files(&one.dir).is_empty()).collect();
    if !bare.is_empty() {
        page.push_str("\nThese carry no text of their own; that of the licence that they name is among those below:\n\n");
        for one in bare {
            let _ = writeln!(page, "- {} {}: {}", one.name, one.version, one.licence);
        }
    }
    page.push_str("\n## The texts\n");
    for (number, carried) in (1..).zip(texts(shipped)) {
        let crates: Vec<_> = carried.crates.iter().map(String::as_str).collect();
        let _ = write!(page, "\n### Text {number}\n\nOf {}.\n", crates.join(", "));
        if !carried.notices.is_empty() {
            page.push('\n');
        }
        for notice in &carried.notices {
            let _ = writeln!(page, "- {notice}");
        }
        let _ = write!(page, "\n```text\n{}\n```\n", carried.text);
    }
    page
}

#[test]
fn the_page_of_licences_is_what_the_lock_file_says() {
    super::check("licences.md", &page(&shipped(&metadata())));
}

#[test]
fn nothing_is_shipped_under_a_licence_that_is_not_allowed() {
    let allowed = allowed();
    let shipped = shipped(&metadata());
    let wrong: Vec<_> = shipped.iter().filter(|one| !is_allowed(&one.licence, &allowed)).collect();
    assert!(wrong.is_empty(), "deny.toml does not allow these: {wrong:#?}");
    let wrong: Vec<_> = STANDARD.iter().filter(|(_, licence, _)| !is_allowed(licence, &allowed)).collect();
    assert!(wrong.is_empty(), "deny.toml does not allow these of the compiler: {wrong:#?}");
    let wrong: Vec<_> =
        BUNDLED.iter().filter(|(.., licence)| *licence != PUBLIC && !is_allowed(licence, &allowed)).collect();
    assert!(wrong.is_empty(), "deny.toml does not allow these of what crates carry: {wrong:#?}");
    assert!(shipped.len() > 100, "only {} crates were found", shipped.len());
}

#[test]
fn whoever_carries_sources_of_others_is_listed_with_what_they_say() {
    let shipped = shipped(&metadata());
    let carry = shipped.iter().filter(|one| has_other_sources(&one.dir)).map(|one| one.name.as_str());
    let carry: BTreeSet<&str> = carry.filter(|name| !UNBUILT.contains(name)).collect();
    let listed: BTreeSet<&str> = BUNDLED.iter().map(|(name, ..)| *name).collect();
    assert_eq!(carry, listed, "look at what they carry, and say so in BUNDLED");
    let page = page(&shipped);
    for said in [
        "Daan Leijen",
        "The author disclaims copyright to this source code",
        "Yuta Mori",
        "the fiat-crypto authors",
        "Copyright: The Rust Project Developers",
        "2019 The Crossbeam Project Developers",
        "Rich Felker",
    ] {
        assert!(page.contains(said), "nobody says `{said}`");
    }
}

#[test]
fn everything_comes_from_the_registry_and_nothing_that_is_banned_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let table =
        |name: &str| std::fs::read_to_string(root.join(name)).unwrap().parse::<toml::Table>().unwrap();
    let (lock, deny) = (table("Cargo.lock"), table("deny.toml"));
    let banned: Vec<&str> =
        deny["bans"]["deny"].as_array().unwrap().iter().map(|ban| ban["crate"].as_str().unwrap()).collect();
    assert!(!banned.is_empty());
    let mut sources = BTreeSet::new();
    for package in lock["package"].as_array().unwrap() {
        let name = package["name"].as_str().unwrap();
        assert!(!banned.contains(&name), "{name} is banned by deny.toml");
        if let Some(source) = package.get("source").and_then(toml::Value::as_str) {
            assert!(source.starts_with("registry+"), "{name} comes from {source}");
            sources.insert(source);
            assert!(package.get("checksum").is_some(), "{name} has no checksum");
        }
    }
    // Which one it is need not be said here: a second one is one too many.
    assert_eq!(sources.len(), 1, "there is one registry: {sources:?}");
}

#[test]
fn an_expression_is_judged_by_what_it_lets_one_choose() {
    let allowed = BTreeSet::from(["MIT", "ISC", "Apache-2.0 WITH LLVM-exception"].map(str::to_owned));
    for good in
        ["MIT", "GPL-3.0 OR MIT", "ISC AND (GPL-3.0 OR MIT)", "Apache-2.0 WITH LLVM-exception OR GPL-3.0"]
    {
        assert!(is_allowed(good, &allowed), "{good}");
    }
    for bad in ["GPL-3.0", "MIT AND GPL-3.0", "(MIT OR ISC) AND GPL-3.0", "Apache-2.0", "mit"] {
        assert!(!is_allowed(bad, &allowed), "{bad}");
    }
}

//! Weaves mutants into a source: all of them together, each selected by its number.
//!
//! ```text
//!   a < b        (match crate::mutant::active() {
//!                     active if !matches!(active, 7 | 8) => { a < b }
//!                     7 => { a <= b }
//!                     _ => { a > b } })
//!   { body }     { if crate::mutant::active() == 9 { return 0; } body }
//! ```
//!
//! Expressions are nested. In the arm of a mutant the rest is unchanged, so a source grows with the
//! depth of its expressions, not with their number.

use super::list::{Genre, Mutant, Position};
use anyhow::Context;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::ops::Range;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// A source with woven mutants.
pub(crate) struct Woven {
    pub(crate) text: String,
    /// Mutants that cannot be selected at run time: in constants, or for a return value of a hidden
    /// type (`impl`).
    pub(crate) untried: BTreeSet<u32>,
    /// Mutants in code of a planted bug: the product has no such code.
    pub(crate) planted: BTreeSet<u32>,
    /// Mutants that do not compile: `||` next to a `let`.
    pub(crate) unviable: BTreeSet<u32>,
    /// Mutants whose position was not found.
    pub(crate) lost: BTreeSet<u32>,
}

/// Weaves all mutants of this file into its source.
///
/// # Errors
/// The source is not Rust.
pub(crate) fn weave(source: &str, mutants: &[&Mutant]) -> anyhow::Result<Woven> {
    let file = syn::parse_file(source).context("cannot be parsed")?;
    let mut wanted: BTreeMap<(Genre, Position), Vec<&Mutant>> = BTreeMap::new();
    for mutant in mutants {
        wanted.entry((mutant.genre, mutant.at)).or_default().push(mutant);
    }
    let mut loom = Loom {
        source,
        wanted,
        edits: Vec::new(),
        in_constant: 0,
        in_planted: 0,
        untried: BTreeSet::new(),
        planted: BTreeSet::new(),
        unviable: BTreeSet::new(),
    };
    loom.visit_file(&file);
    let Loom { wanted, edits, untried, planted, unviable, .. } = loom;
    let lost = wanted.values().flatten().map(|mutant| mutant.id).collect();
    Ok(Woven { text: render(source, edits), untried, planted, unviable, lost })
}

/// Returns the lines of each mutant in a woven text, counted from one.
pub(crate) fn lines(woven: &str) -> Vec<(u32, Range<usize>)> {
    let mut found = Vec::new();
    let mut open = BTreeMap::new();
    for (number, line) in woven.lines().enumerate() {
        for piece in line.split("/*").skip(1) {
            let Some((mark, _)) = piece.split_once("*/") else { continue };
            if let Some(Ok(id)) = mark.strip_prefix('<').map(str::parse::<u32>) {
                open.insert(id, number + 1);
            } else if let Some(Ok(id)) = mark.strip_prefix('>').map(str::parse::<u32>)
                && let Some(first) = open.remove(&id)
            {
                found.push((id, first..number + 2));
            }
        }
    }
    found
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Change {
    /// Insert this text.
    Insert(String),
    /// Select between the existing text and these.
    Choose(Vec<(u32, String)>),
    /// Remove the text.
    Remove,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Edit {
    range: Range<usize>,
    change: Change,
}

struct Loom<'a> {
    source: &'a str,
    wanted: BTreeMap<(Genre, Position), Vec<&'a Mutant>>,
    edits: Vec<Edit>,
    in_constant: u32,
    in_planted: u32,
    untried: BTreeSet<u32>,
    planted: BTreeSet<u32>,
    unviable: BTreeSet<u32>,
}

impl<'a> Loom<'a> {
    /// Takes the mutants of this kind at this position; each is returned only once.
    fn take(&mut self, genre: Genre, at: proc_macro2::Span) -> Vec<&'a Mutant> {
        let start = at.start();
        let place = Position { line: start.line, column: start.column + 1 };
        let mutants = self.wanted.remove(&(genre, place)).unwrap_or_default();
        if self.in_planted > 0 {
            self.planted.extend(mutants.iter().map(|mutant| mutant.id));
            return Vec::new();
        }
        if self.in_constant > 0 {
            self.untried.extend(mutants.iter().map(|mutant| mutant.id));
            return Vec::new();
        }
        mutants
    }

    fn choose(&mut self, range: Range<usize>, variants: Vec<(u32, String)>) {
        if variants.is_empty() {
            return;
        }
        let same = self.edits.iter_mut().find(|edit| edit.range == range);
        if let Some(Edit { change: Change::Choose(known), .. }) = same {
            known.extend(variants);
        } else {
            self.edits.push(Edit { range, change: Change::Choose(variants) });
        }
    }

    /// Returns the text of `whole`, with `part` of it replaced.
    fn replaced(&self, whole: &Range<usize>, part: &Range<usize>, by: &str) -> String {
        let before = &self.source[whole.start..part.start];
        format!("{before}{by}{}", &self.source[part.end..whole.end])
    }

    fn constantly(&mut self, visit: impl FnOnce(&mut Self)) {
        self.in_constant += 1;
        visit(self);
        self.in_constant -= 1;
    }

    /// Visits code; `planted`: it exists only for a planted bug.
    fn planted_if(&mut self, planted: bool, visit: impl FnOnce(&mut Self)) {
        self.in_planted += u32::from(planted);
        visit(self);
        self.in_planted -= u32::from(planted);
    }

    fn function(&mut self, signature: &syn::Signature, body: &syn::Block) {
        if let Some(constness) = &signature.constness {
            // Only a constant could need it; constants that call such functions are made lazy.
            self.edits.push(Edit { range: constness.span.byte_range(), change: Change::Remove });
        }
        let Some(first) = body.stmts.first() else { return };
        let at = body.brace_token.span.open().byte_range().end;
        let mutants = self.take(Genre::FnValue, first.span());
        if let syn::ReturnType::Type(_, of) = &signature.output
            && matches!(**of, syn::Type::ImplTrait(_))
        {
            self.untried.extend(mutants.iter().map(|mutant| mutant.id));
            return;
        }
        for mutant in mutants {
            let Mutant { id, replacement, .. } = mutant;
            let text = format!(
                "\n/*<{id}*/if crate::mutant::active() == {id} {{ return {replacement}; }}/*>{id}*/\n"
            );
            self.edits.push(Edit { range: at..at, change: Change::Insert(text) });
        }
    }
}

/// Whether a `let` is one of the operands.
fn has_let(expression: &syn::Expr) -> bool {
    match expression {
        syn::Expr::Let(_) => true,
        syn::Expr::Binary(binary) => has_let(&binary.left) || has_let(&binary.right),
        _ => false,
    }
}

/// Whether an expression is false while no bug is planted.
fn is_false(expression: &syn::Expr) -> bool {
    match expression {
        syn::Expr::Call(call) => match &*call.func {
            syn::Expr::Path(path) => path.path.is_ident("planted"),
            _ => false,
        },
        syn::Expr::Binary(binary) => match binary.op {
            syn::BinOp::And(_) => is_false(&binary.left) || is_false(&binary.right),
            syn::BinOp::Or(_) => is_false(&binary.left) && is_false(&binary.right),
            _ => false,
        },
        _ => false,
    }
}

/// Whether a pattern matches everything that no earlier arm has matched.
fn takes_all(pattern: &syn::Pat) -> bool {
    match pattern {
        syn::Pat::Wild(_) => true,
        syn::Pat::Ident(name) => name.ident.to_string().starts_with(char::is_lowercase),
        syn::Pat::Tuple(tuple) => tuple.elems.iter().all(takes_all),
        _ => false,
    }
}

/// Beginnings of the comments that mark functions which only planted bugs need.
const PLANTED: [&str; 2] = [" What the planted bug", " Planted bug"];

/// Whether a function's comment begins with the words that mark code of a planted bug.
fn is_of_planted_bug(attributes: &[syn::Attribute]) -> bool {
    let first = attributes.iter().find(|attribute| attribute.path().is_ident("doc"));
    let Some(syn::Meta::NameValue(comment)) = first.map(|attribute| &attribute.meta) else {
        return false;
    };
    let syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) = &comment.value else {
        return false;
    };
    PLANTED.iter().any(|words| text.value().starts_with(words))
}

impl<'a> Visit<'a> for Loom<'_> {
    fn visit_item_fn(&mut self, item: &'a syn::ItemFn) {
        self.planted_if(is_of_planted_bug(&item.attrs), |it| {
            it.function(&item.sig, &item.block);
            visit::visit_item_fn(it, item);
        });
    }

    fn visit_impl_item_fn(&mut self, item: &'a syn::ImplItemFn) {
        self.planted_if(is_of_planted_bug(&item.attrs), |it| {
            it.function(&item.sig, &item.block);
            visit::visit_impl_item_fn(it, item);
        });
    }

    fn visit_trait_item_fn(&mut self, item: &'a syn::TraitItemFn) {
        if let Some(body) = &item.default {
            self.function(&item.sig, body);
        }
        visit::visit_trait_item_fn(self, item);
    }

    fn visit_expr_binary(&mut self, binary: &'a syn::ExprBinary) {
        let unplanted = is_false(&binary.left) && is_false(&binary.right);
        let mut mutants = Vec::new();
        self.planted_if(unplanted, |it| {
            mutants = it.take(Genre::BinaryOperator, binary.op.span());
        });
        if has_let(&binary.left) || has_let(&binary.right) {
            self.unviable.extend(mutants.iter().map(|mutant| mutant.id));
        } else {
            let (whole, part) = (binary.span().byte_range(), binary.op.span().byte_range());
            let variants =
                mutants.iter().map(|it| (it.id, self.replaced(&whole, &part, &it.replacement)));
            let variants = variants.collect();
            self.choose(whole, variants);
        }
        let planted = matches!(binary.op, syn::BinOp::And(_))
            && (is_false(&binary.left) || is_false(&binary.right));
        self.planted_if(planted, |it| visit::visit_expr_binary(it, binary));
    }

    fn visit_expr_if(&mut self, expression: &'a syn::ExprIf) {
        self.visit_expr(&expression.cond);
        self.planted_if(is_false(&expression.cond), |it| it.visit_block(&expression.then_branch));
        if let Some((_, otherwise)) = &expression.else_branch {
            self.visit_expr(otherwise);
        }
    }

    fn visit_expr_unary(&mut self, unary: &'a syn::ExprUnary) {
        let mutants = self.take(Genre::UnaryOperator, unary.op.span());
        let (whole, part) = (unary.span().byte_range(), unary.op.span().byte_range());
        let variants =
            mutants.iter().map(|it| (it.id, self.replaced(&whole, &part, &it.replacement)));
        let variants = variants.collect();
        self.choose(whole, variants);
        visit::visit_expr_unary(self, unary);
    }

    fn visit_expr_match(&mut self, expression: &'a syn::ExprMatch) {
        if !expression.arms.iter().any(|arm| takes_all(&arm.pat)) {
            // Without one of its arms, unless the arm has a condition, it would not be exhaustive.
            let arms = expression.arms.iter();
            for arm in arms.filter(|arm| !matches!(arm.pat, syn::Pat::Guard(_))) {
                let gone = self.take(Genre::MatchArm, arm.span());
                self.unviable.extend(gone.iter().map(|mutant| mutant.id));
            }
        }
        visit::visit_expr_match(self, expression);
    }

    fn visit_arm(&mut self, arm: &'a syn::Arm) {
        let gone = self.take(Genre::MatchArm, arm.span());
        if let syn::Pat::Guard(guarded) = &arm.pat {
            let guard = guarded.guard.span();
            let forced = self.take(Genre::MatchArmGuard, guard);
            let forced = forced.iter().map(|it| (it.id, it.replacement.clone()));
            let gone = gone.iter().map(|it| (it.id, "false".to_owned()));
            let variants = forced.chain(gone).collect();
            self.choose(guard.byte_range(), variants);
        } else {
            let at = arm.pat.span().byte_range().end;
            for Mutant { id, .. } in gone {
                let text = format!("\n/*<{id}*/ if crate::mutant::active() != {id} /*>{id}*/\n");
                self.edits.push(Edit { range: at..at, change: Change::Insert(text) });
            }
        }
        visit::visit_arm(self, arm);
    }

    fn visit_expr_struct(&mut self, expression: &'a syn::ExprStruct) {
        let whole = expression.span().byte_range();
        let starts: Vec<usize> =
            expression.fields.iter().map(|field| field.span().byte_range().start).collect();
        let rest = expression.dot2_token.map(|token| token.span().byte_range().start);
        for (number, field) in expression.fields.iter().enumerate() {
            let mutants = self.take(Genre::StructField, field.span());
            let Some(end) = starts.get(number + 1).copied().or(rest) else { continue };
            let part = starts[number]..end;
            let variants = mutants.iter().map(|it| (it.id, self.replaced(&whole, &part, "")));
            let variants = variants.collect();
            self.choose(whole.clone(), variants);
        }
        visit::visit_expr_struct(self, expression);
    }

    fn visit_item_static(&mut self, item: &'a syn::ItemStatic) {
        // Lazy, so that the code that computes it can be selected at run time.
        let (of, value) = (item.ty.span().byte_range(), item.expr.span().byte_range());
        let mut insert = |at: usize, text: &str| {
            self.edits.push(Edit { range: at..at, change: Change::Insert(text.to_owned()) });
        };
        insert(of.start, "::std::sync::LazyLock<");
        insert(of.end, ">");
        insert(value.start, "::std::sync::LazyLock::new(|| ");
        insert(value.end, ")");
        visit::visit_item_static(self, item);
    }

    fn visit_item_const(&mut self, item: &'a syn::ItemConst) {
        self.constantly(|it| visit::visit_item_const(it, item));
    }

    fn visit_impl_item_const(&mut self, item: &'a syn::ImplItemConst) {
        self.constantly(|it| visit::visit_impl_item_const(it, item));
    }

    fn visit_type_array(&mut self, array: &'a syn::TypeArray) {
        self.constantly(|it| visit::visit_type_array(it, array));
    }

    fn visit_expr_repeat(&mut self, repeat: &'a syn::ExprRepeat) {
        self.visit_expr(&repeat.expr);
        self.constantly(|it| it.visit_expr(&repeat.len));
    }

    fn visit_expr_const(&mut self, block: &'a syn::ExprConst) {
        self.constantly(|it| visit::visit_expr_const(it, block));
    }

    fn visit_variant(&mut self, variant: &'a syn::Variant) {
        self.constantly(|it| visit::visit_variant(it, variant));
    }
}

fn render(source: &str, mut edits: Vec<Edit>) -> String {
    // Outer edits before inner ones; insertions before edits that begin at the same position.
    edits.sort_by_key(|edit| {
        let inserts = matches!(edit.change, Change::Insert(_));
        (edit.range.start, !inserts, usize::MAX - edit.range.end)
    });
    render_part(source, 0..source.len(), &edits)
}

fn render_part(source: &str, range: Range<usize>, mut edits: &[Edit]) -> String {
    let (mut text, mut at) = (String::new(), range.start);
    while let Some((edit, rest)) = edits.split_first() {
        let inner = rest.iter().take_while(|inner| inner.range.start < edit.range.end).count();
        let (inner, rest) = rest.split_at(inner);
        text += &source[at..edit.range.start];
        match &edit.change {
            Change::Insert(new) => text += new,
            Change::Remove => {}
            Change::Choose(variants) => {
                choice(&mut text, &render_part(source, edit.range.clone(), inner), variants);
            }
        }
        at = edit.range.end;
        edits = rest;
    }
    text + &source[at..range.end]
}

fn choice(text: &mut String, original: &str, variants: &[(u32, String)]) {
    let numbers: Vec<String> = variants.iter().map(|(id, _)| id.to_string()).collect();
    _ = write!(
        text,
        "(match crate::mutant::active() {{ active_ if !matches!(active_, {}) => {{ {original} }}",
        numbers.join(" | ")
    );
    for (number, (id, variant)) in variants.iter().enumerate() {
        let last = number + 1 == variants.len();
        let pattern = if last { "_".to_owned() } else { id.to_string() };
        _ = write!(text, "\n/*<{id}*/{pattern} => {{ {variant} }}/*>{id}*/");
    }
    *text += "\n})";
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "\
static TABLE: [u8; 2] = table();
const fn table() -> [u8; 2] { [1, 2] }
const LIMIT: u32 = 1 << 4;
fn f(a: u32, b: u32) -> u32 {
    if !(a < b && b > 2) { return a; }
    match a { 1 if b == 3 => 4, 2 => 5, _ => 6 }
}
fn g(p: P) -> P { P { x: 1, y: 2, ..p } }
/// Planted bug: does nothing.
fn j() -> u8 { 1 + 2 }
fn k(a: u8) { if planted(1) && a < 3 { l(a - 1) } else { l(a * 2) } }
fn i() -> impl Iterator<Item = u8> { [1].into_iter() }
fn h(o: Option<u8>, c: bool, d: bool) -> bool { if let Some(1) = o && c && d { c } else { d } }
";

    fn mutant(id: u32, genre: Genre, line: usize, of: &str, replacement: &str) -> Mutant {
        let column = SOURCE.lines().nth(line - 1).unwrap().find(of).expect("it is there") + 1;
        let (at, replacement) = (Position { line, column }, replacement.to_owned());
        let (file, what, key) = Default::default();
        Mutant { id, file, genre, at, replacement, what, key }
    }

    #[test]
    fn the_words_for_a_planted_bug_mark_a_function() {
        let is_marked = |words: &str| {
            let text = format!("#[doc = \" {words} nothing.\"] fn f() {{}}");
            is_of_planted_bug(&syn::parse_str::<syn::ItemFn>(&text).expect("Rust").attrs)
        };
        assert!(is_marked("What the planted bug does:") && is_marked("Planted bug: does"));
        assert!(!is_marked("For a planted bug:"));
    }

    #[test]
    fn every_kind_of_mutant_finds_its_place() {
        use Genre::*;
        let mutants = [
            mutant(1, FnValue, 2, "[1, 2]", "[0; 2]"),
            mutant(2, BinaryOperator, 3, "<<", ">>"),
            mutant(3, BinaryOperator, 5, "<", "<="),
            mutant(4, BinaryOperator, 5, "&&", "||"),
            mutant(5, UnaryOperator, 5, "!", ""),
            mutant(6, MatchArm, 6, "1 if", ""),
            mutant(7, MatchArmGuard, 6, "b == 3", "true"),
            mutant(8, BinaryOperator, 6, "==", "!="),
            mutant(9, MatchArm, 6, "2 =>", ""),
            mutant(10, StructField, 8, "x: 1", ""),
            mutant(11, BinaryOperator, 13, "&& c", "||"),
            mutant(12, BinaryOperator, 13, "&& d", "||"),
            mutant(13, BinaryOperator, 1, "=", "!="),
            mutant(14, FnValue, 12, "[1]", "::std::iter::empty()"),
            mutant(15, FnValue, 10, "1 +", "0"),
            mutant(16, BinaryOperator, 10, "+", "-"),
            mutant(17, BinaryOperator, 11, "&&", "||"),
            mutant(18, BinaryOperator, 11, "<", "<="),
            mutant(19, BinaryOperator, 11, "- 1", "+"),
            mutant(20, BinaryOperator, 11, "*", "+"),
        ];
        let all: Vec<&Mutant> = mutants.iter().collect();
        let Woven { text, untried, planted, unviable, lost } = weave(SOURCE, &all).expect("Rust");
        let set = |ids: &[u32]| ids.iter().copied().collect::<BTreeSet<u32>>();
        assert_eq!((untried, unviable, lost), (set(&[2, 14]), set(&[11, 12]), set(&[13])));
        assert_eq!(planted, set(&[15, 16, 18, 19]));
        syn::parse_file(&text).expect("still Rust");
        let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for piece in [
            "static TABLE: ::std::sync::LazyLock<[u8; 2]> = ::std::sync::LazyLock::new(|| table());",
            " fn table() -> [u8; 2] { /*<1*/if crate::mutant::active() == 1 { return [0; 2]; }/*>1*/",
            "/*<4*/_ => { a < b || b > 2 }/*>4*/",
            "active_ if !matches!(active_, 3) => { a < b } /*<3*/_ => { a <= b }/*>3*/",
            "/*<5*/_ => { (a < b && b > 2) }/*>5*/",
            "!matches!(active_, 7 | 6 | 8) => { b == 3 } /*<7*/7 => { true }/*>7*/ /*<6*/6 => { false }",
            "{ planted(1) && a < 3 } /*<17*/_ => { planted(1) || a < 3 }/*>17*/",
            "{ a * 2 } /*<20*/_ => { a + 2 }/*>20*/",
            "2 /*<9*/ if crate::mutant::active() != 9 /*>9*/ => 5",
            "/*<10*/_ => { P { y: 2, ..p } }/*>10*/",
        ] {
            assert!(flat.contains(piece), "{piece}\n{flat}");
        }
    }

    #[test]
    fn the_lines_of_each_mutant_are_its_own() {
        let mutants = [
            mutant(3, Genre::BinaryOperator, 5, "<", "<="),
            mutant(7, Genre::BinaryOperator, 5, ">", "<"),
        ];
        let all: Vec<&Mutant> = mutants.iter().collect();
        let text = weave(SOURCE, &all).expect("Rust").text;
        let found = lines(&text);
        assert_eq!(found.len(), 2);
        for (id, range) in found {
            let line = text.lines().nth(range.start - 1).expect("it is there");
            assert!(line.contains(&format!("/*<{id}*/")) && range.len() == 1, "{id}: {range:?}");
        }
    }
}

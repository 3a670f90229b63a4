mod work;

fn main() {
    let items = work::items();
    by_turns::Bench::new("work").variant("work", |turn| turn.iter(|| work::all(&items))).main();
}

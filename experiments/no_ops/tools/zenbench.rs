#[path = "../benches/work.rs"]
mod work;

fn main() {
    let result = zenbench::run(|suite| {
        suite.group("work", |group| {
            let items = work::items();
            group.bench("work", move |bencher| bencher.iter(|| work::all(&items)));
        });
    });
    zenbench::postprocess_result(&result);
}

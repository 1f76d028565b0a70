use killcord_checker::Setting;
use killcord_model::boundary::Boundary;
use stateright::{Checker, Model};
fn main() {
    let a: Vec<u8> = std::env::args().skip(1).map(|a| a.parse().unwrap()).collect();
    let boundary = [Boundary::Tree, Boundary::Cgroup, Boundary::Namespace][a[0] as usize];
    let s = Setting {
        jobs: a[1] as usize,
        kills: a[2],
        losses: a[3],
        orders: a[4],
        again: a.get(5) == Some(&1),
        calm: a.get(6) == Some(&1),
        fault: a.get(7).map(|f| killcord_checker::Fault::ALL[*f as usize]),
        ..Setting::one_job(boundary)
    };
    let t = std::time::Instant::now();
    let c = s
        .checker()
        .threads(2)
        .finish_when(stateright::HasDiscoveries::AnyFailures)
        .target_state_count(8_000_000)
        .spawn_bfs()
        .join();
    println!(
        "{} states, {} unique, depth {}, {:?}",
        c.state_count(),
        c.unique_state_count(),
        c.max_depth(),
        t.elapsed()
    );
    if std::env::var_os("DFS").is_some() {
        let mut w = killcord_checker::World::new(&s);
        let mut n = 0;
        let mut r: u64 = std::env::var("DFS").unwrap().parse().unwrap();
        loop {
            let mut acts = vec![];
            s.actions(&w, &mut acts);
            if acts.is_empty() {
                break;
            }
            r = r.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let a = acts[(r >> 33) as usize % acts.len()];
            if format!("{a:?}").starts_with("Kill") && (r >> 20) % 12 != 0 {
                continue;
            }
            println!("{a:?} {:?}", w.now);
            w = s.next_state(&w, a).unwrap();
            n += 1;
            if n > 400 {
                println!("{w:#?}");
                break;
            }
        }
    }
    for (name, path) in c.discoveries() {
        println!("== {name}: {} steps", path.clone().into_actions().len());
        if c.model()
            .properties()
            .iter()
            .any(|p| p.name == name && matches!(p.expectation, stateright::Expectation::Always))
        {
            let last = path.last_state().clone();
            for a in path.into_actions() {
                println!("   {a:?}");
            }
            println!("{last:#?}");
        }
    }
}

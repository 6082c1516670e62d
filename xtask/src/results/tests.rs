use serde_json::json;

use super::*;

fn kept() -> Vec<Kept> {
    let of = |median: f64| json!({"median": median, "low": median - 0.1, "high": median + 0.1});
    let program = |name: &str, speed: f64| {
        let row = |lock, speed: f64| json!({"kind": "point", "world": "process", "lock": lock, "of_baseline": of(speed)});
        let run = json!({"kind": "run", "command": ["/some/where/overlock", "compare", "--", "xz"],
                         "commit": "abc", "machine": {"cpus": 2, "cpu_model": "Z80"}});
        Kept(name.into(), vec![run, row("libc", 1.0), row("hybrid", speed), row("none", 1.0)])
    };
    let bench = vec![
        json!({"kind": "run", "command": ["overlock", "bench"], "machine": {}}),
        json!({"kind": "summary", "lock": "hybrid", "of_best_peer": of(1.25), "pair_ns": 2.5,
               "worst": {"ratio": 0.5}, "longest_stall_ns": 42e6, "beside": 2}),
    ];
    let beside = program("slow-beside", 0.7);
    vec![program("fast", 2.0), program("slow", 0.5), Kept("bench".into(), bench), beside]
}

#[test]
fn each_place_gets_its_table_and_the_rest_stays() {
    let text = "# Title\n<!-- programs -->\nold\n<!-- end -->\nafter\n";
    let filled = filled(text, &kept()).unwrap();
    let rows = "| slow | 0.500 (0.400..0.600) | 1.00 (0.900..1.10) |\n\
                | fast | 2.00 (1.90..2.10) | 1.00 (0.900..1.10) |\n\
                | geometric mean | 1.00 | 1.00 |\n<!-- end -->\nafter\n";
    let head = "| program | hybrid | none |\n";
    assert!(filled.starts_with(&format!("# Title\n<!-- programs -->\n{head}")), "{filled}");
    assert!(filled.ends_with(rows) && !filled.contains("old"), "{filled}");
    assert!(super::filled("<!-- programs -->\n", &kept()).is_err(), "a place without an end");
    let beside = super::filled(&text.replace("programs", "programs beside"), &kept()).unwrap();
    let row = "| slow | 0.700 (0.600..0.800) | 1.00 (0.900..1.10) |\n| geometric mean | 0.700 |";
    assert!(beside.contains(row) && !beside.contains("fast"), "{beside}");
    for nothing in [&kept()[2..], &[]] {
        assert_eq!(super::filled(text, nothing).unwrap(), text, "no program was run");
    }
}

#[test]
fn policies_are_compared_with_linux_seed_by_seed() {
    let point = |policy: &str, rates: &[u32]| {
        let samples = rates.iter().map(|rate| json!({"ops_per_s": rate})).collect::<Vec<_>>();
        json!({"kind": "point", "policy": policy, "cpus": 8, "samples": samples})
    };
    let rows = vec![point("linux", &[10, 20, 40]), point("ipi-first", &[20, 20, 20])];
    let row = "| load | 8 | linux, other seeds<br>ipi-first \
               | 2.000 (0.250..2.000)<br>1.000 (0.500..2.000) |\n";
    let said = policies(&[Kept("load".into(), rows.clone()), Kept("other".into(), Vec::new())]);
    assert!(said.ends_with(row), "{said}");
    let more = vec![point("linux", &[20, 30, 80])];
    let said = policies(&[Kept("load".into(), rows), Kept("load-more".into(), more)]);
    assert!(said.contains("linux, over load<br>linux, other seeds | 2.000 (1.500..2.000)<br>"));
}

#[test]
fn rows_that_say_the_same_are_merged() {
    let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
    let rows = [row(["a", "1", "x"]), row(["b", "2", "x"]), row(["a", "3", "x"])];
    let all = merged(rows.into_iter(), &[0, 2]);
    assert_eq!(all, [row(["a", "1<br>3", "x"]), row(["b", "2", "x"])]);
}

#[test]
fn summaries_are_told_with_what_was_beside_and_commands_as_they_are_typed() {
    let row = "| hybrid | 2 | 1.25 (1.15..1.35) | 0.500 | 42.0 | - | - | 2.50 |\n";
    assert!(points(&kept()).ends_with(row), "{}", points(&kept()));
    let mut readers = kept();
    readers[2].1.push(json!({"kind": "point", "task": "read-50"}));
    assert!(!points(&readers).contains("hybrid"), "a summary of readers");
    let command = "|---|\n| `overlock compare` | `xz`<br>`xz` | abc | 2 of Z80 |\n";
    assert!(commands(&kept()).ends_with(command), "{}", commands(&kept()));
}

#[test]
fn a_simulated_point_agrees_or_not_unless_the_laboratory_disagrees_with_itself() {
    let row = |lock: &str, rounds: [f64; 2]| {
        let samples = rounds.map(|ops_per_s| json!({ "ops_per_s": ops_per_s }));
        json!({"kind": "point", "lock": lock, "cpus": 2, "cs_ns": 0, "samples": samples,
               "ops_per_s": {"median": rounds[0]}})
    };
    let file = |name: &str, rows: [[f64; 2]; 4]| {
        let locks = ["near", "far", "wide", "lucky"];
        Kept(name.into(), locks.into_iter().zip(rows).map(|(lock, of)| row(lock, of)).collect())
    };
    let real = file("kvm", [[4e6, 5e6], [4e4, 5e4], [4e3, 9e3], [4e2, 9e2]]);
    let simulated = file("sim-kvm", [[5e6; 2], [6e4; 2], [6e3; 2], [4e2; 2]]);
    let table = trust::trust(&[real, simulated]);
    for line in [
        "| 0 ns | 2 | near | 4.00 M ×1.2 | 1.25 |\n",
        "| 0 ns | 2 | far | 40.0 k ×1.2 | **1.50** |\n",
        "| 0 ns | 2 | wide | 4.00 k ×2.2 | (1.50) |\n",
        "| 0 ns | 2 | lucky | 0.400 k ×2.2 | (1.00) |\n",
        "| **1 of 4 agree**, 2 can't be judged; order 1.00 |  |\n",
    ] {
        assert!(table.contains(line), "{line} is not in {table}");
    }
    assert_eq!(trust::trust(&[]).lines().count(), 2, "without files there is no table");
}

#[test]
fn tasks_of_threads_have_a_row_for_each_point() {
    let of = json!({"median": 0.5, "low": 0.25, "high": 1.0});
    let row = json!({"kind": "point", "world": "threads", "lock": "rwlock", "task": "read-90",
                     "cpus": 4, "cs_ns": 50, "ncs_ns": 2100, "of_best_peer": of,
                     "best_peer": "std-rwlock", "beside": 2});
    let kept = [Kept("reads".into(), vec![row])];
    let line = "| read-90 | 4 | 0.050 / 2.10 | 2 | 0.500 (0.250..1.00) | std-rwlock |\n";
    assert!(tasks(&kept, "rwlock", "read-").ends_with(line), "{}", tasks(&kept, "rwlock", "read-"));
    assert!(!tasks(&kept, "hybrid", "").contains("0.500"));
}

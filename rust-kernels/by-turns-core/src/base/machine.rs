//! The machine, without anything that names its owner: no host name, no user, no serial numbers.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

/// A struct that becomes an object of JSON, field by field. Programs that read it back as well, and keep the order of its
/// fields, have it from serde's derive.
macro_rules! object {
    ($(#[$about:meta])* $visible:vis struct $name:ident { $($(#[$of:meta])* $seen:vis $field:ident: $kind:ty,)* }) => {
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq)]
        #[cfg_attr(feature = "studies", derive(serde::Serialize, serde::Deserialize))]
        $visible struct $name { $($(#[$of])* $seen $field: $kind,)* }

        impl From<$name> for Value {
            fn from(object: $name) -> Self {
                Self::from_iter([$((stringify!($field), Self::from(object.$field)),)*])
            }
        }
    };
}

object! {
    /// What is known about this machine. Unknown facts are `None`, never guessed.
    pub struct Machine {
        /// Such as `amd-epyc-2c`: processor and logical cores (`amd-epyc-2c-quota-1500m` where these two may work for 1.5
        /// seconds in a second), or what `ASYNC_COST_MACHINE` says, where a fleet has several alike.
        pub name: String,
        /// The name of the processor.
        pub cpu: Option<String>,
        vendor: Option<String>,
        architecture: Option<String>,
        /// How many processors this process may use at the same time.
        logical_cores: Option<u32>,
        physical_cores: Option<u32>,
        /// Hardware threads of a core: of several numbers the largest.
        threads_per_core: Option<u32>,
        /// Of a processor with several.
        core_types: Option<Vec<CoreType>>,
        minimum_mhz: Option<f64>,
        maximum_mhz: Option<f64>,
        /// The processors that this process may use, by number.
        affinity: Option<Vec<u32>>,
        /// How many processors' time a control group may use at most, or `none`.
        quota_cores: Option<Value>,
        /// Of the first core, smallest level first.
        caches: Option<Vec<Cache>>,
        memory_bytes: Option<u64>,
        /// `none`, the hypervisor's name, or `unknown hypervisor`.
        virtualisation: Option<String>,
        /// Frequency governor of the first core.
        governor: Option<String>,
        /// Such as `Linux 6.1.0`.
        kernel: Option<String>,
        os: Option<String>,
        /// How much of where things lie in memory the system draws anew for each process: 0 nothing, 1 all but the heap, 2
        /// everything.
        pub address_randomisation: Option<u32>,
        /// What the system does against each known weakness of the processor.
        mitigations: Option<Value>,
    }
}

object! {
    /// Cores that are alike.
    struct CoreType {
        name: String,
        cores: u32,
    }
}

object! {
    /// One cache of the processor.
    struct Cache {
        level: u32,
        /// `data`, `instruction` or `unified`.
        kind: String,
        bytes: u64,
    }
}

impl Machine {
    /// Asks the system.
    pub fn this() -> Self {
        let machine = Self::below(Path::new("/"), LSCPU);
        let name = std::env::var("ASYNC_COST_MACHINE").unwrap_or_else(|_| machine.name.clone());
        Self { name, kernel: kernel(), address_randomisation: address_randomisation(), ..machine }
    }

    /// The machine whose files lie below `root`, as this `lscpu` tells of them, or /proc where that is not installed.
    fn below(root: &Path, lscpu: &str) -> Self {
        let facts = facts(root, lscpu);
        let of = |name: &'static str| {
            let values = facts.iter().filter(move |(field, _)| field == name).map(|(_, value)| value);
            values.filter(|value| *value != "-").cloned()
        };
        let mhz = |name| of(name).filter_map(|value| value.parse::<f64>().ok());
        let cpu = of("Model name").reduce(|one, other| format!("{one} + {other}"));
        let affinity = affinity(root);
        let quota = quota(root);
        let processors = affinity.as_ref().map(|numbers| numbers.len() as u32).or_else(available);
        let within = |cores: u32| match quota {
            Some(Some(quota)) if quota < f64::from(cores) => Some(quota),
            _ => None,
        };
        let limit = processors.and_then(within);
        let limited = limit.map(|quota| format!("-quota-{:.0}m", 1_000.0 * quota)).unwrap_or_default();
        let siblings = siblings(root, "sys/devices/system/cpu/online");
        Self {
            name: slug(cpu.as_deref().unwrap_or(std::env::consts::ARCH), processors) + &limited,
            cpu,
            vendor: of("Vendor ID").next(),
            architecture: Some(std::env::consts::ARCH.to_owned()),
            logical_cores: limit.map_or(processors, |quota| Some((quota as u32).max(1))),
            physical_cores: siblings.as_ref().map(|cores| cores.len() as u32),
            threads_per_core: siblings.iter().flatten().map(|threads| numbers(threads).len() as u32).max(),
            core_types: core_types(root, &facts),
            minimum_mhz: mhz("CPU min MHz").reduce(f64::min),
            maximum_mhz: mhz("CPU max MHz").reduce(f64::max),
            affinity,
            quota_cores: quota.map(|limit| limit.map_or_else(|| json!("none"), Value::from)),
            caches: caches(&root.join("sys/devices/system/cpu/cpu0/cache")),
            memory_bytes: read(root.join("proc/meminfo")).and_then(|text| memory(&text)),
            virtualisation: virtualisation(root, of("Hypervisor vendor").next()),
            governor: read(root.join("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")),
            kernel: None,
            os: read(root.join("etc/os-release")).and_then(|text| os_name(&text)),
            address_randomisation: None,
            mitigations: mitigations(&root.join("sys/devices/system/cpu/vulnerabilities")),
        }
    }

    /// Notes what another process of the same run has found: the run is as random as the least random of them.
    pub fn note(&mut self, other: &Self) {
        let both = self.address_randomisation.zip(other.address_randomisation);
        self.address_randomisation = both.map(|(one, another)| one.min(another));
    }
}

/// Part of util-linux. It knows the processors of ARM by the numbers that are all that /proc tells of them.
const LSCPU: &str = "lscpu";

/// What `lscpu` says, in order: of several types of cores one after the other. Without it what /proc says, in its words.
fn facts(root: &Path, lscpu: &str) -> Vec<(String, String)> {
    let mut command = Command::new(lscpu);
    command.arg("--json").env("LC_ALL", "C");
    if root != Path::new("/") {
        command.arg("--sysroot").arg(root);
    }
    let output = command.output().ok().filter(|output| output.status.success());
    let facts_json = output.and_then(|output| serde_json::from_slice::<Value>(&output.stdout).ok());
    if let Some(facts_json) = facts_json {
        let mut facts = Vec::new();
        flatten(&facts_json["lscpu"], &mut facts);
        return facts;
    }
    let cpu_info = read(root.join("proc/cpuinfo")).unwrap_or_default();
    let arm = || {
        let part = (field(&cpu_info, "CPU implementer")?, field(&cpu_info, "CPU part")?);
        Some(format!("implementer {} part {}", part.0, part.1))
    };
    let model = field(&cpu_info, "model name").map(str::to_owned).or_else(arm).or_else(|| macos(root));
    let vendor = field(&cpu_info, "vendor_id").map(str::to_owned);
    let known = [("Model name", model), ("Vendor ID", vendor)];
    known.into_iter().filter_map(|(name, value)| Some((name.to_owned(), plain(&value?)))).collect()
}

/// Fields and values, those of `children` (in some versions) included.
fn flatten(part: &Value, facts: &mut Vec<(String, String)>) {
    for fact in part.as_array().into_iter().flatten() {
        let text = |name: &str| plain(fact[name].as_str().unwrap_or_default());
        facts.push((text("field").trim_end_matches(':').to_owned(), text("data")));
        flatten(&fact["children"], facts);
    }
}

/// The name of the processor where there is no /proc. (Not tried yet.)
fn macos(root: &Path) -> Option<String> {
    let here = cfg!(target_os = "macos") && root == Path::new("/");
    let output =
        here.then(|| Command::new("sysctl").args(["-n", "machdep.cpu.brand_string"]).output().ok())??;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned()).filter(|name| !name.is_empty())
}

/// The types of cores, where there are several: Intel's have one name, and the system lists them; ARM's have names.
fn core_types(root: &Path, facts: &[(String, String)]) -> Option<Vec<CoreType>> {
    let intel = ["cpu_core", "cpu_atom"].into_iter().filter_map(|name| {
        let cores = siblings(root, &format!("sys/devices/{name}/cpus"))?.len() as u32;
        Some(CoreType { name: name.to_owned(), cores })
    });
    let mut types: Vec<CoreType> = intel.collect();
    if types.is_empty() {
        for (name, value) in facts {
            if name == "Model name" {
                types.push(CoreType { name: value.clone(), cores: 1 });
            } else if let (Some(last), Ok(factor)) = (types.last_mut(), value.parse::<u32>())
                && (name.starts_with("Core(s) per ") || matches!(&**name, "Socket(s)" | "Cluster(s)"))
            {
                last.cores *= factor;
            }
        }
    }
    (types.len() > 1).then_some(types)
}

/// The cores of the processors that a file lists, each as the list of its hardware threads.
fn siblings(root: &Path, list: &str) -> Option<BTreeSet<String>> {
    let of = |number: &u32| {
        read(root.join(format!("sys/devices/system/cpu/cpu{number}/topology/thread_siblings_list")))
    };
    let cores: BTreeSet<String> = numbers(&read(root.join(list))?).iter().filter_map(of).collect();
    (!cores.is_empty()).then_some(cores)
}

/// The numbers of a list such as `0-3,8`.
fn numbers(list: &str) -> Vec<u32> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.trim().parse().ok()?..=last.trim().parse().ok()?)
    };
    list.split(',').filter_map(range).flatten().collect()
}

/// The processors that this process may use. (Of those that are allowed, some may not be there.)
fn affinity(root: &Path) -> Option<Vec<u32>> {
    let status = read(root.join("proc/self/status"))?;
    let mut allowed = numbers(field(&status, "Cpus_allowed_list")?);
    if let Some(online) = read(root.join("sys/devices/system/cpu/online")) {
        let online = numbers(&online);
        allowed.retain(|number| online.contains(number));
    }
    Some(allowed)
}

/// How many processors the standard library would use.
fn available() -> Option<u32> {
    let cores = std::thread::available_parallelism().ok()?;
    u32::try_from(cores.get()).ok()
}

/// The folders of the control groups that limit the processor time of this process: its own and those above it. (In a
/// container the path may be that of the host, of which only the root is there.)
fn control_groups(root: &Path) -> Option<Vec<PathBuf>> {
    let groups = read(root.join("proc/self/cgroup"))?;
    let group = |line: &str| {
        let [_, controllers, path] = line.splitn(3, ':').collect::<Vec<_>>()[..] else { return None };
        let limits = controllers.is_empty() || controllers.split(',').any(|name| name == "cpu");
        limits.then(|| (controllers.to_owned(), path.trim_start_matches('/').to_owned()))
    };
    // A hierarchy of version 1 has the controller, where there is one; that of version 2 has no name.
    let (controllers, path) = groups.lines().filter_map(group).max()?;
    let base = root.join("sys/fs/cgroup").join(controllers);
    if !base.is_dir() {
        return None; // elsewhere, or not to be seen: whether there is a limit is not known
    }
    Some(Path::new(&path).ancestors().map(|path| base.join(path)).collect())
}

/// How many processors' time: within `None` where there is no limit.
fn quota(root: &Path) -> Option<Option<f64>> {
    let of = |group: PathBuf| {
        let microseconds = |name: &str| read(group.join(name));
        let both = microseconds("cpu.max").or_else(|| {
            Some(microseconds("cpu.cfs_quota_us")? + " " + &microseconds("cpu.cfs_period_us")?)
        })?;
        let (quota, period) = both.split_once(' ')?;
        // `max`, or -1 in version 1, is no limit.
        Some(quota.parse::<f64>().ok().filter(|quota| *quota > 0.0)? / period.parse::<f64>().ok()?)
    };
    Some(control_groups(root)?.into_iter().filter_map(of).reduce(f64::min))
}

/// How often processes under the limits of this one have used up their time: they waited for the next period.
pub fn throttled() -> Option<u64> {
    throttled_below(Path::new("/"))
}

fn throttled_below(root: &Path) -> Option<u64> {
    let of = |group: PathBuf| {
        read(group.join("cpu.stat"))?
            .lines()
            .find_map(|line| line.strip_prefix("nr_throttled "))?
            .parse::<u64>()
            .ok()
    };
    control_groups(root)?.into_iter().filter_map(of).reduce(|one, other| one + other)
}

/// The system's setting (proc_sys_kernel(5)); 0 in a process that was started without, as by `setarch -R`.
#[cfg(target_os = "linux")]
fn address_randomisation() -> Option<u32> {
    // SAFETY: with this number it returns the flags of this process, changes nothing, and touches no memory.
    match unsafe { libc::personality(0xffff_ffff) } {
        -1 => None,
        flags if flags & libc::ADDR_NO_RANDOMIZE != 0 => Some(0),
        _ => read("/proc/sys/kernel/randomize_va_space")?.parse().ok(),
    }
}

#[cfg(not(target_os = "linux"))]
fn address_randomisation() -> Option<u32> {
    None
}

/// The files of this folder, one for each weakness, with the one line that each of them holds.
fn mitigations(folder: &Path) -> Option<Value> {
    let files = fs::read_dir(folder).ok()?.filter_map(Result::ok);
    let texts = files
        .filter_map(|file| Some((plain(&file.file_name().into_string().ok()?), plain(&read(file.path())?))));
    let texts: BTreeMap<_, _> = texts.collect();
    (!texts.is_empty()).then(|| Value::from_iter(texts))
}

/// Load averages over 1, 5 and 15 minutes, in runnable tasks.
pub fn load() -> Option<[f64; 3]> {
    load_averages(&read("/proc/loadavg")?)
}

/// The first three numbers of a text such as `0.31 0.72 0.80 1/123 4567` (proc_loadavg(5)).
fn load_averages(text: &str) -> Option<[f64; 3]> {
    let mut numbers = text.split(' ').map_while(|word| word.parse().ok());
    Some([numbers.next()?, numbers.next()?, numbers.next()?])
}

/// Time that the hypervisor took away since boot, all processors together, in milliseconds.
pub fn steal_ms() -> Option<u64> {
    steal_ticks(&read("/proc/stat")?)?.checked_mul(1_000)?.checked_div(ticks_per_second()?)
}

/// The eighth number of the line `cpu` counts stolen ticks (proc_stat(5)).
fn steal_ticks(text: &str) -> Option<u64> {
    text.lines().find(|line| line.starts_with("cpu "))?.split_whitespace().nth(8)?.parse().ok()
}

#[cfg(unix)]
fn ticks_per_second() -> Option<u64> {
    // SAFETY: sysconf takes a number, returns a number and touches no memory of ours.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    u64::try_from(ticks).ok()
}

#[cfg(not(unix))]
fn ticks_per_second() -> Option<u64> {
    None
}

#[cfg(not(unix))]
fn kernel() -> Option<String> {
    None
}

/// System and release; the node name that uname knows as well is left where it is.
#[cfg(unix)]
fn kernel() -> Option<String> {
    use std::ffi::CStr;
    use std::mem::MaybeUninit;

    let mut names = MaybeUninit::<libc::utsname>::uninit();
    // SAFETY: uname writes to a struct of its own type, which we own.
    if unsafe { libc::uname(names.as_mut_ptr()) } != 0 {
        return None;
    }
    // SAFETY: uname succeeded, so it has filled the struct.
    let names = unsafe { names.assume_init() };
    let text = |field: &[libc::c_char]| {
        // SAFETY: the fields are arrays that uname terminates with a zero byte, and `names` outlives the text
        // read here.
        let text = unsafe { CStr::from_ptr(field.as_ptr()) };
        text.to_string_lossy().into_owned()
    };
    Some(plain(&format!("{} {}", text(&names.sysname), text(&names.release))))
}

fn caches(folder: &Path) -> Option<Vec<Cache>> {
    let mut folders: Vec<_> =
        fs::read_dir(folder).ok()?.filter_map(|entry| Some(entry.ok()?.path())).collect();
    folders.sort();
    let caches: Vec<Cache> = folders.iter().filter_map(|folder| cache(folder)).collect();
    (!caches.is_empty()).then_some(caches)
}

fn cache(folder: &Path) -> Option<Cache> {
    let text = |name: &str| read(folder.join(name));
    let kind = text("type")?.to_lowercase();
    Some(Cache { level: text("level")?.parse().ok()?, kind, bytes: size(&text("size")?)? })
}

/// `48K` and the like in bytes.
fn size(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

fn memory(text: &str) -> Option<u64> {
    let kilobytes = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    kilobytes.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1_024)
}

/// Only x86 says in /proc that there is a hypervisor; elsewhere its absence is not known.
fn virtualisation(root: &Path, hypervisor: Option<String>) -> Option<String> {
    let cpu_info = read(root.join("proc/cpuinfo")).unwrap_or_default();
    let virtual_x86 =
        field(&cpu_info, "flags").map(|flags| flags.split(' ').any(|flag| flag == "hypervisor"));
    let unnamed =
        virtual_x86.map(|hypervisor| if hypervisor { "unknown hypervisor" } else { "none" }.to_owned());
    hypervisor.or(unnamed)
}

fn os_name(text: &str) -> Option<String> {
    let name = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(plain(name.trim_matches('"')))
}

/// The first value of a `name : value` line.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then_some(value.trim())
    })
}

/// A file of one fact, without the line's end.
fn read(path: impl AsRef<Path>) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// Text from outside, without control characters.
fn plain(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).collect::<String>().trim().to_owned()
}

/// Words of processor names that tell nothing apart.
const FILLERS: [&str; 8] = ["cpu", "processor", "r", "tm", "core", "with", "radeon", "graphics"];

/// Words of a processor's name that are kept: maker, family, model.
const SLUG_WORDS: usize = 4;

/// A folder name for this kind of machine.
fn slug(cpu: &str, logical_cores: Option<u32>) -> String {
    let cpu = cpu.to_lowercase();
    // `@ 2.20GHz` and what follows changes with the day and not with the model.
    let model = cpu.split('@').next().unwrap_or_default();
    let words = model
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty() && !FILLERS.contains(word));
    let mut words: Vec<String> = words.take(SLUG_WORDS).map(|word| word.chars().take(14).collect()).collect();
    if words.is_empty() {
        words.push("unknown".to_owned());
    }
    words.extend(logical_cores.map(|cores| format!("{cores}c")));
    words.join("-")
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn load_averages_are_the_first_three_numbers() {
        assert_eq!(load_averages("0.31 0.72 0.80 1/123 4567"), Some([0.31, 0.72, 0.80]));
        assert_eq!(load_averages("0.31 much 0.80"), None);
    }

    #[test]
    fn slugs_are_maker_family_model_and_cores() {
        let cases = [
            ("AMD EPYC", Some(2), "amd-epyc-2c"),
            ("Intel(R) Xeon(R) CPU @ 2.20GHz", Some(4), "intel-xeon-4c"),
            ("Intel(R) Core(TM) i7-9750H CPU @ 2.60GHz", Some(12), "intel-i7-9750h-12c"),
            ("AMD Ryzen 9 7950X 16-Core Processor", Some(32), "amd-ryzen-9-7950x-32c"),
            ("../..", None, "unknown"),
        ];
        for (cpu, cores, name) in cases {
            assert_eq!(slug(cpu, cores), name);
        }
    }

    /// The recorded files of `tests/machines/<name>.txt`, laid out in a folder of their own; the lines before the first
    /// file say where they come from.
    struct Recorded(PathBuf);

    impl Recorded {
        fn lay_out(name: &str) -> Self {
            let text =
                fs::read_to_string(format!("{}/tests/machines/{name}.txt", env!("CARGO_MANIFEST_DIR")));
            static NUMBER: AtomicU32 = AtomicU32::new(0);
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let root = std::env::temp_dir().join(format!("by-turns-machine-{}-{number}", std::process::id()));
            for file in text.expect("it is recorded").split("\n== ").skip(1) {
                let (path, content) = file.split_once('\n').expect("a path, and content below it");
                let path = root.join(path);
                fs::create_dir_all(path.parent().expect("it is below the root")).expect("a temporary folder");
                fs::write(path, content.to_owned() + "\n").expect("a temporary file");
            }
            Self(root)
        }

        fn machine(&self, lscpu: &str) -> Machine {
            Machine::below(&self.0, lscpu)
        }
    }

    impl Drop for Recorded {
        fn drop(&mut self) {
            // What cannot be removed from a temporary folder may stay.
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    /// A recorded machine: name with lscpu, name without; hypervisor; logical cores, physical cores, threads of a core.
    type Row = (&'static str, [&'static str; 2], Option<&'static str>, [u32; 3]);

    const MACHINES: [Row; 8] = [
        ("graviton", ["neoverse-v1-2c", "implementer-0x41-part-0xd40-2c"], None, [2, 2, 1]),
        ("ampere", ["neoverse-n1-2c", "implementer-0x41-part-0xd0c-2c"], None, [2, 2, 1]),
        ("raspberry-pi", ["cortex-a53-4c", "implementer-0x41-part-0xd03-4c"], None, [4, 4, 1]),
        ("hybrid-intel", ["12th-gen-intel-i9-24c", "12th-gen-intel-i9-24c"], Some("none"), [24, 16, 2]),
        ("no-hypervisor", ["intel-i5-m-560-4c", "intel-i5-m-560-4c"], Some("none"), [4, 2, 2]),
        ("one-processor", ["amd-epyc-1c", "amd-epyc-1c"], Some("unknown hypervisor"), [1, 2, 1]),
        (
            "quota",
            ["amd-epyc-2c-quota-1500m", "amd-epyc-2c-quota-1500m"],
            Some("unknown hypervisor"),
            [1, 2, 1],
        ),
        (
            "container",
            ["amd-epyc-2c-quota-500m", "amd-epyc-2c-quota-500m"],
            Some("unknown hypervisor"),
            [1, 2, 1],
        ),
    ];

    #[test]
    fn recorded_machines_are_told_apart_with_lscpu_and_without() {
        let installed = Command::new(LSCPU).arg("--version").output().is_ok();
        for (recorded, [with, without], virtualisation, counts) in MACHINES {
            let tree = Recorded::lay_out(recorded);
            for (lscpu, name) in [(LSCPU, if installed { with } else { without }), ("no lscpu here", without)]
            {
                let machine = tree.machine(lscpu);
                assert_eq!(machine.name, name, "{recorded}, {lscpu}");
                let found = [machine.logical_cores, machine.physical_cores, machine.threads_per_core];
                assert_eq!(found, counts.map(Some), "{recorded}");
                assert_eq!(machine.virtualisation.as_deref(), virtualisation, "{recorded}");
                assert!(machine.cpu.is_some(), "{recorded}");
            }
        }
    }

    #[test]
    fn limits_of_processor_time_are_told_from_pinning() {
        let of = |recorded| {
            let tree = Recorded::lay_out(recorded);
            let Machine { affinity, quota_cores, .. } = tree.machine(LSCPU);
            (affinity.unwrap_or_default(), quota_cores, throttled_below(&tree.0))
        };
        let none = Some(json!("none"));
        assert_eq!(of("one-processor"), (vec![0], none, Some(0)));
        assert_eq!(of("quota"), (vec![0, 1], Some(json!(1.5)), Some(0)));
        assert_eq!(of("container"), (vec![0, 1], Some(json!(0.5)), Some(7)));
        assert_eq!(of("graviton"), (vec![0, 1], None, None));
    }

    #[test]
    fn what_a_machine_tells_of_its_cores_is_noted() {
        let of = |recorded| Recorded::lay_out(recorded).machine("no lscpu here");
        let cores = |name: &str, cores| CoreType { name: name.to_owned(), cores };
        assert_eq!(of("hybrid-intel").core_types, Some(vec![cores("cpu_core", 8), cores("cpu_atom", 8)]));
        let machine = of("no-hypervisor");
        let cache = |level, kind: &str, bytes| Cache { level, kind: kind.to_owned(), bytes };
        assert_eq!(machine.caches.unwrap_or_default()[2], cache(2, "unified", 256 << 10));
        assert_eq!(machine.vendor.as_deref(), Some("GenuineIntel"));
        assert_eq!((machine.governor.as_deref(), machine.core_types), (Some("ondemand"), None));
    }

    #[test]
    fn lscpu_is_read_in_every_form() {
        let facts_json = json!([{"field": "Vendor ID:", "data": "ARM", "children": [
            {"field": "Model name:", "data": "Cortex-A510", "children": [
                {"field": "Core(s) per socket:", "data": "3"}, {"field": "Socket(s):", "data": "1"}]},
            {"field": "Model name:", "data": "Cortex-A715"},
            {"field": "Core(s) per cluster:", "data": "2"}, {"field": "Socket(s):", "data": "-"},
            {"field": "Cluster(s):", "data": "2"}]}]);
        let mut facts = Vec::new();
        flatten(&facts_json, &mut facts);
        let types = core_types(Path::new("/nowhere"), &facts).unwrap_or_default();
        let types: Vec<_> = types.iter().map(|one| (&*one.name, one.cores)).collect();
        assert_eq!(types, [("Cortex-A510", 3), ("Cortex-A715", 4)]);
    }

    #[test]
    fn facts_are_read_from_their_files() {
        assert_eq!(memory("MemFree: 1 kB\nMemTotal:       2048 kB\n").unwrap_or(0), 2 << 20);
        assert_eq!(
            [size("48K"), size("1M"), size("7"), size("x"), size("")],
            [Some(49_152), Some(1 << 20), Some(7), None, None]
        );
        assert_eq!(numbers("0-2,5"), [0, 1, 2, 5]);
        assert_eq!(steal_ticks("cpu  1 2 3 4 5 6 7 158 0 0\ncpu0 1\n"), Some(158));
        assert_eq!(os_name("NAME=x\nPRETTY_NAME=\"Some Linux 12\"\n").as_deref(), Some("Some Linux 12"));
    }

    #[test]
    fn unknown_facts_stay_unknown() {
        let machine = Machine::below(Path::new("/nowhere"), "no lscpu here");
        assert_eq!((machine.cpu, machine.physical_cores, machine.virtualisation), (None, None, None));
        assert_eq!((machine.caches, machine.mitigations, machine.quota_cores), (None, None, None));
    }

    #[test]
    fn a_run_is_as_random_as_the_least_random_of_its_processes() {
        let with = |address_randomisation| Machine { address_randomisation, ..Machine::this() };
        for (one, other, both) in
            [(Some(2), Some(0), Some(0)), (Some(1), Some(2), Some(1)), (Some(2), None, None)]
        {
            let mut run = with(one);
            run.note(&with(other));
            assert_eq!(run.address_randomisation, both);
        }
    }

    #[cfg(feature = "studies")]
    #[test]
    fn programs_of_either_kind_write_the_same() {
        let machine = Recorded::lay_out("hybrid-intel").machine("no lscpu here");
        let derived = serde_json::to_value(&machine).expect("plain data");
        assert_eq!(derived, Value::from(machine));
        assert_eq!(derived["core_types"][1]["name"], "cpu_atom");
    }

    #[test]
    fn this_machine_has_a_plain_name() {
        let name = Machine::this().name;
        assert!(
            name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-') && name.len() < 64,
            "{name}"
        );
    }
}

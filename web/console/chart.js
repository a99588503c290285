// Charts with uPlot, in the colours of the page.

const color = (name) =>
    getComputedStyle(document.documentElement).getPropertyValue(name).trim();

const axis = (more = {}) => ({
    stroke: color("--soft"), grid: { stroke: color("--grid"), width: 1 },
    ticks: { stroke: color("--grid"), width: 1 }, ...more });

const hours = (at) => new Date(at * 1000).toLocaleTimeString([], {
    hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const minutes = (at) => new Date(at * 1000).toLocaleString([], {
    dateStyle: "medium", timeStyle: "medium" });

// Ten minutes at least: a daemon that has just begun has one point or none.
const SPAN = 600;
const span = (_, low, high) => [Math.min(low, high - SPAN), high];

function atLeastTwo(data) {
    const end = data[0][0] ?? Math.round(Date.now() / 1000);

    return data[0].length > 1 ? data
        : [[end - SPAN, end], ...data.slice(1).map((column) => [null, column[0] ?? null])];
}

// chart(place, { label, series: [{ label, color, dash, fill }], unit })
// Returns { set(data), stop() }; data is [times, ...columns].
export function chart(place, { label, series, unit = "", most }) {
    let plot, data = atLeastTwo([[], ...series.map(() => [])]);

    place.setAttribute("role", "img");
    place.setAttribute("aria-label", label);

    function draw() {
        plot?.destroy();
        plot = new window.uPlot({
            width: Math.max(place.clientWidth, 200), height: 230,
            cursor: { y: false },
            scales: { x: { range: span }, y: { range: (_, low, high) =>
                [0, Math.max(high * 1.1, most ?? 4)] } },
            axes: [axis({ values: (_, ticks) => ticks.map(hours) }), axis({ size: 62, values: (_, ticks) =>
                ticks.map((tick) => `${tick}${unit}`) })],
            series: [{ label: "", value: (_, at) => at ? minutes(at) : "" }, ...series.map((one) => ({
                label: one.label, width: 2,
                points: { show: () => data[0].length < 3, size: 6 }, // no line yet
                stroke: color(one.color), dash: one.dash,
                fill: one.fill ? `${color(one.color)}22` : undefined,
                value: (_, value) => value === null || value === undefined ? ""
                    : `${Math.round(value * 10) / 10}${unit}`,
            }))],
        }, data, place);
    }

    const watch = new ResizeObserver(() =>
        plot?.setSize({ width: Math.max(place.clientWidth, 200), height: 230 }));
    const scheme = matchMedia("(prefers-color-scheme: dark)");

    draw();
    watch.observe(place);
    scheme.addEventListener("change", draw);
    return {
        set(fresh) {
            data = atLeastTwo(fresh);
            plot.setData(data);
        },
        stop() {
            watch.disconnect();
            scheme.removeEventListener("change", draw);
            plot?.destroy();
        },
    };
}

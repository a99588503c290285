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

// chart(place, { label, series: [{ label, color, dash, fill }], unit })
// Returns { set(data), stop() }; data is [times, ...columns].
export function chart(place, { label, series, unit = "", most }) {
    let plot, data = [[], ...series.map(() => [])];

    place.setAttribute("role", "img");
    place.setAttribute("aria-label", label);

    function draw() {
        plot?.destroy();
        plot = new window.uPlot({
            width: Math.max(place.clientWidth, 200), height: 230,
            cursor: { y: false },
            scales: { y: { range: (_, low, high) =>
                [0, Math.max(high * 1.1, most ?? 1)] } },
            axes: [axis({ values: (_, ticks) => ticks.map(hours) }), axis({ size: 62, values: (_, ticks) =>
                ticks.map((tick) => `${tick}${unit}`) })],
            series: [{ label: "", value: (_, at) => at ? minutes(at) : "" }, ...series.map((one) => ({
                label: one.label, width: 2, points: { show: false },
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
            data = fresh;
            plot.setData(data);
        },
        stop() {
            watch.disconnect();
            scheme.removeEventListener("change", draw);
            plot?.destroy();
        },
    };
}

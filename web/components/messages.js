// messages.js -- the texts, and how they are translated.
//
// A message is a text with {placeholders}, or one text for each plural form of
// {n}: { one: "{n} try left", other: "{n} tries left" }. To translate, pass
// other messages: setMessages("fr", {...}) for a page, the property or JSON
// attribute `messages` for one element. Missing ones are English.

const en = {
    rate_title: "Just a moment",
    rate: "Too many requests. You can try again in {time}.",
    rate_unknown: "Too many requests. Please try again later.",
    plan_title: "You have reached the limit of your plan",
    plan: "It resets on {date}.",
    plan_at: "It resets at {date}.",
    plan_unknown: "Upgrade to continue.",
    unavailable_title: "Temporarily unavailable",
    unavailable: "Please try again in {time}.",
    unavailable_unknown: "Please try again later.",
    other_title: "That did not work",
    other: "You can try again in {time}.",
    other_unknown: "Please try again.",
    ready: "You can try again now.",
    upgrade: "Upgrade",
    upgrade_now: "Upgrade now",
    blocked: "No requests left. You can send again at {date} (in {time}).",
    blocked_unknown: "No requests left at the moment.",
    left: { one: "{n} request left", other: "{n} requests left" },
    used_of: "{used} of {limit} {unit}",
    used_only: "{used} {unit}, without a limit",
    percent: "{percent} used",
    plan_name: "Plan: {plan}",
    resets: "Resets on {date}",
    resets_at: "Resets at {date}",
    exhausted: "At this rate used up on {date}",
    exhausted_at: "At this rate used up at {date}",
    lasts: "At this rate enough until the reset",
    overage: "{n} {unit} over the limit",
    credits: "{n} {unit} of credit left",
    credited: "{n} {unit} paid from credits",
    state_warn: "More than 80% used",
    state_high: "Nearly used up",
    state_over: "Used up",
    degraded: "These figures may be incomplete at the moment.",
    queue_title: "Waiting to be sent",
    queue_empty: "Nothing is waiting.",
    queue_summary: { one: "{n} in the queue", other: "{n} in the queue" },
    queue_next: "Next attempt in {time}",
    queue_position: "Position {n}",
    queue_waiting: "Waiting",
    queue_sending: "Sending",
    queue_limited: "Sent when the limit allows it",
    queue_offline: "No connection; it is tried again",
    queue_done: "Sent",
    queue_stopped: "Stopped: {reason}",
    queue_stopped_402: "the limit of the plan is reached",
    queue_stopped_409: "it is being processed already",
    queue_stopped_422: "it differs from the one that was sent with this key",
    queue_stopped_other: "it was refused ({status})",
    queue_said_done: "{label} was sent.",
    queue_said_stopped: "The queue stopped at {label}: {reason}.",
    queue_retry: "Try again",
    queue_remove: "Remove",
    queue_retry_of: "Try {label} again",
    queue_remove_of: "Remove {label}",
};

const de = {
    rate_title: "Einen Moment",
    rate: "Zu viele Anfragen. Ein neuer Versuch ist in {time} möglich.",
    rate_unknown: "Zu viele Anfragen. Bitte später erneut versuchen.",
    plan_title: "Das Limit Ihres Tarifs ist erreicht",
    plan: "Es wird am {date} zurückgesetzt.",
    plan_at: "Es wird um {date} zurückgesetzt.",
    plan_unknown: "Mit einem größeren Tarif geht es weiter.",
    unavailable_title: "Vorübergehend nicht verfügbar",
    unavailable: "Bitte in {time} erneut versuchen.",
    unavailable_unknown: "Bitte später erneut versuchen.",
    other_title: "Das hat nicht geklappt",
    other: "Ein neuer Versuch ist in {time} möglich.",
    other_unknown: "Bitte erneut versuchen.",
    ready: "Ein neuer Versuch ist jetzt möglich.",
    upgrade: "Tarif wechseln",
    upgrade_now: "Jetzt Tarif wechseln",
    blocked: "Keine Anfragen übrig. Wieder möglich um {date} (in {time}).",
    blocked_unknown: "Zurzeit keine Anfragen übrig.",
    left: { one: "noch {n} Anfrage", other: "noch {n} Anfragen" },
    used_of: "{used} von {limit} {unit}",
    used_only: "{used} {unit}, ohne Limit",
    percent: "{percent} verbraucht",
    plan_name: "Tarif: {plan}",
    resets: "Wird am {date} zurückgesetzt",
    resets_at: "Wird um {date} zurückgesetzt",
    exhausted: "Bei diesem Verbrauch am {date} aufgebraucht",
    exhausted_at: "Bei diesem Verbrauch um {date} aufgebraucht",
    lasts: "Reicht bei diesem Verbrauch bis zum Zurücksetzen",
    overage: "{n} {unit} über dem Limit",
    credits: "{n} {unit} Guthaben übrig",
    credited: "{n} {unit} aus Guthaben bezahlt",
    state_warn: "Mehr als 80 % verbraucht",
    state_high: "Fast aufgebraucht",
    state_over: "Aufgebraucht",
    degraded: "Diese Zahlen sind zurzeit vielleicht unvollständig.",
    queue_title: "Wird noch gesendet",
    queue_empty: "Nichts wartet.",
    queue_summary: { one: "{n} in der Warteschlange",
                     other: "{n} in der Warteschlange" },
    queue_next: "Nächster Versuch in {time}",
    queue_position: "Platz {n}",
    queue_waiting: "Wartet",
    queue_sending: "Wird gesendet",
    queue_limited: "Wird gesendet, sobald das Limit es erlaubt",
    queue_offline: "Keine Verbindung; neuer Versuch folgt",
    queue_done: "Gesendet",
    queue_stopped: "Angehalten: {reason}",
    queue_stopped_402: "das Limit des Tarifs ist erreicht",
    queue_stopped_409: "es wird schon bearbeitet",
    queue_stopped_422: "es weicht von dem ab, was mit diesem Schlüssel gesendet wurde",
    queue_stopped_other: "es wurde abgelehnt ({status})",
    queue_said_done: "{label} wurde gesendet.",
    queue_said_stopped: "Die Warteschlange hielt bei {label} an: {reason}.",
    queue_retry: "Erneut versuchen",
    queue_remove: "Entfernen",
    queue_retry_of: "{label} erneut versuchen",
    queue_remove_of: "{label} entfernen",
};

const languages = new Map([["en", en], ["de", de]]);

/** Adds or changes the messages of a language, for all elements. */
export function setMessages(language, messages) {
    const short = language.toLowerCase().split("-")[0];

    languages.set(short, { ...languages.get(short), ...messages });
}

/** The messages of a language, with English for the missing ones. */
export function messagesOf(language = "en", own = {}) {
    const short = language.toLowerCase().split("-")[0];

    return { ...en, ...languages.get(short), ...own };
}

function pluralOf(message, language, n) {
    if (typeof message === "string")
        return message;

    const form = new Intl.PluralRules(language).select(n);

    return message[form] ?? message.other;
}

/** The message with its placeholders filled in, as text. */
export function say(messages, key, values = {}, language = "en") {
    const message = pluralOf(messages[key] ?? key, language,
                             values.count ?? Number(values.n));

    return message.replace(/\{(\w+)\}/g, (all, name) =>
        name in values ? `${values[name]}` : all);
}

/** "12", "1:05" or "1:00:05". */
export function clockText(seconds) {
    const two = (n) => `${n}`.padStart(2, "0");
    const [h, m, s] = [Math.floor(seconds / 3600),
                       Math.floor(seconds / 60) % 60, seconds % 60];

    return h > 0 ? `${h}:${two(m)}:${two(s)}` : `${m}:${two(s)}`;
}

/** "12 seconds", "2 minutes", "3 hours": for sentences and screen readers. */
export function spanText(seconds, language) {
    const of = (n, unit) => new Intl.NumberFormat(
        language, { style: "unit", unit, unitDisplay: "long" }).format(n);

    if (seconds < 60)
        return of(seconds, "second");
    if (seconds < 3600) {
        const rest = seconds % 60;

        return of(Math.floor(seconds / 60), "minute") +
            (rest && seconds < 600 ? ` ${of(rest, "second")}` : "");
    }
    if (seconds < 48 * 3600)
        return of(Math.ceil(seconds / 3600), "hour");
    return of(Math.ceil(seconds / 86400), "day");
}

/** Is the time shown, and not the date? */
export const isNear = (at, now) => Math.abs(at - now) < 18 * 3600_000;

/** A date in the viewer's zone: the time if it is near, and no year if it is
 * this one. */
export function dateText(at, language, { now = Date.now(), zone } = {}) {
    const thisYear = new Date(at).getFullYear() === new Date(now).getFullYear();
    const options = isNear(at, now) ? { hour: "numeric", minute: "2-digit" }
        : { day: "numeric", month: "long",
            ...thisYear ? {} : { year: "numeric" } };

    return new Intl.DateTimeFormat(language, { ...options, timeZone: zone })
        .format(at);
}

export function numberText(n, language) {
    return new Intl.NumberFormat(language, { maximumFractionDigits: 2 })
        .format(n);
}

// texts.js -- the texts of the usage page; see components/messages.js.

import { setMessages } from "../components/messages.js";

setMessages("en", {
    page_title: "Usage",
    page_updated: "Updated at {time}",
    page_csv: "Download CSV",
    page_csv_failed: "The file could not be loaded. Please try again.",
    page_no_token: "This page needs a link from the application. Open it from " +
        "the settings of your account.",
    page_expired: "This view has expired. Reload the page that it belongs to.",
    page_away: "The figures cannot be loaded at the moment. It is tried again " +
        "by itself.",
    page_away_old: "The figures cannot be loaded at the moment. These are of " +
        "{time}.",
    page_back: "The figures are up to date again.",
    page_empty: "There are no quotas for this organisation.",
    page_call: "{names}: more than 80% of the plan is used.",
    page_call_over: "{names}: the limit of the plan is reached.",
    page_history: "{label}: {total} {unit} in the last {n} days, most on {date} " +
        "with {most}",
    page_table: "Daily figures",
    page_day: "Day",
    page_used: "Used",
    page_overage: "Overage",
});

setMessages("de", {
    page_title: "Verbrauch",
    page_updated: "Stand {time}",
    page_csv: "CSV herunterladen",
    page_csv_failed: "Die Datei konnte nicht geladen werden. Bitte erneut " +
        "versuchen.",
    page_no_token: "Diese Seite braucht einen Link der Anwendung. Öffnen Sie " +
        "sie in den Einstellungen Ihres Kontos.",
    page_expired: "Diese Ansicht ist abgelaufen. Laden Sie die Seite neu, zu " +
        "der sie gehört.",
    page_away: "Die Zahlen können zurzeit nicht geladen werden. Ein neuer " +
        "Versuch folgt von selbst.",
    page_away_old: "Die Zahlen können zurzeit nicht geladen werden. Diese sind " +
        "von {time}.",
    page_back: "Die Zahlen sind wieder aktuell.",
    page_empty: "Für diese Organisation gibt es keine Kontingente.",
    page_call: "{names}: mehr als 80 % des Tarifs sind verbraucht.",
    page_call_over: "{names}: das Limit des Tarifs ist erreicht.",
    page_history: "{label}: {total} {unit} in den letzten {n} Tagen, am " +
        "meisten am {date} mit {most}",
    page_table: "Zahlen der Tage",
    page_day: "Tag",
    page_used: "Verbraucht",
    page_overage: "Über dem Limit",
});

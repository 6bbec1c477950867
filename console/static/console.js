// The keys of the console. Without this script every page works by its links and forms.
const list = document.getElementById("list");
document.documentElement.classList.add("scripted");
